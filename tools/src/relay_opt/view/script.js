"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const view = document.getElementById("view");
const controls = document.getElementById("controls");
const state = { stage: data.stages.length - 1, tab: "text", from: null, item: null };

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};
const drawn = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

// A stage without a text of its own is as the one before.
const own = (index) => {
  while (index > 0 && data.stages[index].text === undefined) index -= 1;
  return data.stages[index];
};
const colour = (group) => `hsl(${(group * 137.508) % 360} 65% 78%)`;
const milliseconds = (ms) => (ms === null ? "" : ms < 10 ? `${ms.toFixed(2)} ms` : `${Math.round(ms)} ms`);

const chooser = (names, chosen, change) => {
  const select = make("select", { onchange: (event) => change(event.target.value) });
  for (const [value, label] of names) {
    const option = make("option", { value }, label);
    option.selected = String(value) === String(chosen);
    select.append(option);
  }
  return select;
};

function stages() {
  const nav = document.getElementById("stages");
  const most = Math.max(1e-9, ...data.stages.map((stage) => stage.ms || 0));
  nav.replaceChildren(...data.stages.map((stage, index) => {
    const before = index > 0 ? data.stages[index - 1].ops : stage.ops;
    const count = before === stage.ops ? `${stage.ops} operations` : `${before} → ${stage.ops} operations`;
    const counters = Object.entries(stage.counters || {}).map(([name, count]) => `${count} ${name}`);
    const button = make("button", {
      class: index > 0 && stage.text === undefined ? "same" : null,
      title: counters.join("\n"),
      onclick: () => { state.stage = index; show(); },
    }, make("b", {}, stage.name), make("small", {}, [milliseconds(stage.ms), count].filter(Boolean).join(" · ")));
    if (stage.ms !== null) button.append(make("div", { class: "bar", style: `width:${(100 * stage.ms) / most}%` }));
    if (index === state.stage) button.setAttribute("aria-current", "true");
    return button;
  }));
}

const TOKENS = /(\/\*.*?\*\/|\/\/.*)|([%@][\w.$]+)|\b(def|fn|let|if|else|match|type|extern|te\.\w+|for|outputs)\b|(\b\d[\w.+-]*)/g;
function coloured(line) {
  const parts = [];
  let end = 0;
  for (const match of line.matchAll(TOKENS)) {
    parts.push(line.slice(end, match.index));
    const kind = match[1] ? "type" : match[2] ? "name" : match[3] ? "word" : "number";
    parts.push(make("span", { class: kind }, match[0]));
    end = match.index + match[0].length;
  }
  parts.push(line.slice(end));
  return parts;
}

// Colours cost time and memory; long texts go without.
const MOST_COLOURED = 5000;

function text() {
  const lines = own(state.stage).text.split("\n");
  const pre = make("pre");
  if (lines.length > MOST_COLOURED) pre.append(lines.join("\n"));
  else for (const line of lines) pre.append(...coloured(line), "\n");
  view.replaceChildren(pre);
}

// The lines that two texts have in common, as pairs of places: Myers, An O(ND) Difference Algorithm
// and Its Variations, 1986. Gives up on texts that differ in more than `most` lines.
function common(a, b, most) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let ends = [a.length, b.length];
  while (ends[0] > start && ends[1] > start && a[ends[0] - 1] === b[ends[1] - 1]) ends = [ends[0] - 1, ends[1] - 1];
  const pairs = [];
  for (let index = 0; index < start; index += 1) pairs.push([index, index]);
  const [n, m] = [ends[0] - start, ends[1] - start];
  const trace = [];
  let reached = new Map([[1, 0]]);
  search: for (let d = 0; d <= Math.min(n + m, most); d += 1) {
    trace.push(new Map(reached));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reached.get(k - 1) < reached.get(k + 1));
      let x = down ? reached.get(k + 1) : reached.get(k - 1) + 1;
      while (x < n && x - k < m && a[start + x] === b[start + x - k]) x += 1;
      reached.set(k, x);
      if (x >= n && x - k >= m) {
        const found = [];
        let [i, j] = [n, m];
        for (let step = d; step >= 0 && (i > 0 || j > 0); step -= 1) {
          const before = trace[step];
          const at = i - j;
          const from = at === -step || (at !== step && before.get(at - 1) < before.get(at + 1)) ? at + 1 : at - 1;
          const x0 = step === 0 ? 0 : before.get(from);
          const y0 = step === 0 ? 0 : x0 - from;
          while (i > x0 && j > y0) { i -= 1; j -= 1; found.push([start + i, start + j]); }
          [i, j] = [x0, y0];
        }
        pairs.push(...found.reverse());
        break search;
      }
    }
  }
  for (let index = 0; index + ends[0] < a.length; index += 1) pairs.push([ends[0] + index, ends[1] + index]);
  return pairs;
}

const AROUND = 3;
function difference() {
  const from = state.from ?? Math.max(0, state.stage - 1);
  const names = data.stages.map((stage, index) => [index, `${index}: ${stage.name}`]);
  controls.append("from", chooser(names, from, (value) => { state.from = Number(value); show(); }));
  // Values keep their numbers through all stages, so that no line differs by these alone.
  const lines = (stage) => (stage.numbered ?? stage.text).split("\n");
  const [a, b] = [lines(own(from)), lines(own(state.stage))];
  const pairs = [...common(a, b, 4000), [a.length, b.length]];
  const pre = make("pre");
  let [i, j] = [0, 0];
  let equal = [];
  let changed = false;
  const flush = (last) => {
    const head = changed ? equal.slice(0, AROUND) : [];
    const tail = last ? [] : equal.slice(Math.max(head.length, equal.length - AROUND));
    pre.append(...head.flatMap((line) => ["  ", ...coloured(line), "\n"]));
    const left = equal.length - head.length - tail.length;
    if (left > 0) pre.append(make("span", { class: "skip" }, `… ${left} equal lines`));
    pre.append(...tail.flatMap((line) => ["  ", ...coloured(line), "\n"]));
    equal = [];
  };
  for (const [x, y] of pairs) {
    if (x > i || y > j) {
      flush(false);
      changed = true;
      for (; i < x; i += 1) pre.append(make("span", { class: "minus" }, "- ", ...coloured(a[i])));
      for (; j < y; j += 1) pre.append(make("span", { class: "plus" }, "+ ", ...coloured(b[j])));
    }
    if (x < a.length) equal.push(a[x]);
    [i, j] = [x + 1, y + 1];
  }
  flush(true);
  view.replaceChildren(changed ? pre : make("p", { class: "empty" }, "Nothing differs."));
}

function graph() {
  const graphs = own(state.stage).graphs;
  if (graphs.length === 0) {
    view.replaceChildren(make("p", { class: "empty" }, "There is no function."));
    return;
  }
  const chosen = graphs.find((graph) => graph.name === state.item) || graphs[0];
  const names = graphs.map((graph) => [graph.name, `@${graph.name}`]);
  controls.append(chooser(names, chosen.name, (value) => { state.item = value; show(); }));
  if (!chosen.graph) {
    const message = `@${chosen.name} has ${chosen.ops} operations; graphs of more than ${chosen.most} are not drawn.`;
    view.replaceChildren(make("p", { class: "empty" }, message));
    return;
  }
  const { nodes, edges, groups } = chosen.graph;
  if (groups > 0) controls.append(`${groups} kernels, one colour each`);
  const note = make("div", { id: "note" }, "Point at an operation. Drag to move, turn the wheel to zoom, double-click to see all.");
  const svg = drawn("svg", {});
  const lines = edges.map(([from, to, within]) => {
    const [a, b] = [nodes[from], nodes[to]];
    const [x0, y0, x1, y1] = [a.x, a.y + 12, b.x, b.y - 12];
    const bend = Math.max(14, (y1 - y0) / 3);
    const path = drawn("path", { d: `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}` });
    if (within) path.setAttribute("class", "within");
    svg.append(path);
    return { path, from, to };
  });
  const boxes = nodes.map((node, index) => {
    const box = drawn("g", { transform: `translate(${node.x} ${node.y})` });
    const rect = drawn("rect", { x: -node.w / 2, y: -12, width: node.w, height: 24 });
    if (node.l.startsWith("%")) rect.setAttribute("class", "parameter");
    else rect.setAttribute("fill", node.g === null ? "#e4e4e7" : colour(node.g));
    const label = drawn("text", {});
    label.textContent = node.l;
    box.append(rect, label);
    box.addEventListener("mouseenter", () => {
      note.textContent = `${node.l}\n${node.t}`;
      box.classList.add("marked");
      for (const line of lines) if (line.from === index || line.to === index) line.path.classList.add("marked");
    });
    box.addEventListener("mouseleave", () => {
      box.classList.remove("marked");
      for (const line of lines) line.path.classList.remove("marked");
    });
    svg.append(box);
    return box;
  });
  let window = { x: 0, y: 0, w: 1, h: 1 };
  const apply = () => svg.setAttribute("viewBox", `${window.x} ${window.y} ${window.w} ${window.h}`);
  const all = () => {
    const left = Math.min(...nodes.map((node) => node.x - node.w / 2)) - 20;
    const right = Math.max(...nodes.map((node) => node.x + node.w / 2)) + 20;
    const bottom = Math.max(...nodes.map((node) => node.y)) + 40;
    window = { x: left, y: -40, w: right - left, h: bottom + 40 };
    apply();
  };
  svg.addEventListener("dblclick", all);
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = Math.exp(event.deltaY * 0.0015);
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    window = { x: point.x - (point.x - window.x) * factor, y: point.y - (point.y - window.y) * factor, w: window.w * factor, h: window.h * factor };
    apply();
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, window: { ...window } }; });
  svg.addEventListener("pointermove", (event) => {
    if (!held || event.buttons === 0) return;
    const scale = svg.getScreenCTM().a;
    window = { ...held.window, x: held.window.x - (event.clientX - held.x) / scale, y: held.window.y - (event.clientY - held.y) / scale };
    apply();
  });
  svg.addEventListener("pointerup", () => { held = null; });
  view.replaceChildren(svg, note);
  if (boxes.length === 0) return;
  all();
  // What is too large to be read at once is shown from its beginning.
  const scale = Math.min(svg.clientWidth / window.w, svg.clientHeight / window.h);
  if (scale < 0.5) {
    const center = nodes.find((node) => node.y > 0)?.x ?? nodes[0].x;
    window = { x: center - svg.clientWidth / 2, y: -40, w: svg.clientWidth, h: svg.clientHeight };
    apply();
  }
}

function profile() {
  const kernels = (data.profile && data.profile.kernels) || [];
  if (kernels.length === 0) {
    view.replaceChildren(make("p", { class: "empty" }, "No profile. Give one with --profile FILE, as `relay-opt bench MODEL --json --profile` writes it."));
    return;
  }
  const columns = [
    ["kernel", (kernel) => kernel.name],
    ["calls", (kernel) => kernel.calls],
    ["µs", (kernel) => (kernel.seconds * 1e6).toFixed(1)],
    ["share", (kernel) => `${(kernel.share * 100).toFixed(1)} %`],
    ["GFLOP/s", (kernel) => (kernel.flops_per_s / 1e9).toFixed(1)],
    ["GB/s", (kernel) => (kernel.bytes_per_s / 1e9).toFixed(1)],
    ["of peak", (kernel) => (kernel.share_of_peak === null ? "" : `${(kernel.share_of_peak * 100).toFixed(0)} %`)],
    ["from", (kernel) => (kernel.from || []).slice(0, 3).join(", ")],
  ];
  const table = make("table", {}, make("tr", {}, ...columns.map(([name]) => make("th", {}, name))),
    ...kernels.map((kernel) => make("tr", {}, ...columns.map(([, of]) => make("td", {}, String(of(kernel) ?? ""))))));
  view.replaceChildren(table);
}

function show() {
  stages();
  controls.replaceChildren();
  for (const tab of document.querySelectorAll("#tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.tab === state.tab));
  ({ text, graph, diff: difference, profile })[state.tab]();
}

document.getElementById("pipeline").textContent = `relay-opt ${data.version} · ${data.pipeline || "no passes"}`;
document.getElementById("end").textContent = data.end || "";
for (const tab of document.querySelectorAll("#tabs button")) tab.addEventListener("click", () => { state.tab = tab.dataset.tab; show(); });
const asked = new URLSearchParams(location.hash.slice(1));
if (asked.has("tab")) state.tab = asked.get("tab");
if (asked.has("stage")) state.stage = Math.min(data.stages.length - 1, Math.max(0, Number(asked.get("stage")) || 0));
show();
