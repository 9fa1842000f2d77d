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
// A stage without a text of its own is as the one before.
const own = (index) => {
  while (index > 0 && data.stages[index].text === undefined) index -= 1;
  return data.stages[index];
};
const colour = (kernel, strength) => `hsl(${(kernel * 137.508) % 360} 65% 78% / ${strength})`;
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
      class: index > 0 && stage.text === undefined && !stage.changed ? "same" : null,
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
  searched = inText();
}

// How to find text in what is shown.
function inText() {
  const found = [];
  let nodes = [];
  return {
    find(wanted) {
      found.length = 0;
      nodes = [];
      const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
      let [text, end] = ["", 0];
      const parts = [];
      while (walker.nextNode()) {
        nodes.push({ node: walker.currentNode, start: end });
        parts.push(walker.currentNode.data);
        end += walker.currentNode.data.length;
      }
      text = parts.join("").toLowerCase();
      if (wanted === "" || text.length !== end) return 0;
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) found.push([at, at + wanted.length]);
      return found.length;
    },
    show(index) {
      const place = (offset) => {
        let [low, high] = [0, nodes.length];
        while (high - low > 1) {
          const middle = (low + high) >> 1;
          if (nodes[middle].start <= offset) low = middle;
          else high = middle;
        }
        return [nodes[low].node, offset - nodes[low].start];
      };
      const range = document.createRange();
      range.setStart(...place(found[index][0]));
      range.setEnd(...place(found[index][1] - 1));
      range.setEnd(range.endContainer, range.endOffset + 1);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      const [line, all] = [range.getBoundingClientRect(), view.getBoundingClientRect()];
      view.scrollTop += line.top - all.top - all.height / 2;
      view.scrollLeft = Math.max(0, view.scrollLeft + line.left - all.left - all.width / 2);
    },
  };
}

const AROUND = 3;
function difference() {
  const from = state.from ?? Math.max(0, state.stage - 1);
  const names = data.stages.map((stage, index) => [index, `${index}: ${stage.name}`]);
  controls.append("from", chooser(names, from, (value) => { state.from = Number(value); show(); }));
  // Values keep their numbers through all stages, so that no line differs by these alone.
  const lines = (stage) => (stage.numbered ?? stage.text).split("\n");
  const [a, b] = [lines(own(from)), lines(own(state.stage))];
  const pairs = common(a, b);
  const plain = 2 * pairs.length < a.length + b.length - MOST_COLOURED;
  pairs.push([a.length, b.length]);
  const parts = [];
  let [i, j] = [0, 0];
  let equal = [];
  let changed = false;
  // What does not differ much is coloured; of the rest, a text for all its lines.
  const painted = (sign, lines, end) => {
    if (plain) return lines.length > 0 ? [lines.map((line) => sign + line).join("\n") + end] : [];
    return lines.flatMap((line, index) => [sign, ...coloured(line), index + 1 < lines.length ? "\n" : end]);
  };
  const run = (kind, sign, lines) => {
    const part = make("span", { class: kind });
    // Not as arguments: a call takes only so many.
    for (const piece of painted(sign, lines, "")) part.append(piece);
    if (lines.length > 0) parts.push(part);
  };
  const flush = (last) => {
    const head = changed ? equal.slice(0, AROUND) : [];
    const tail = last ? [] : equal.slice(Math.max(head.length, equal.length - AROUND));
    parts.push(...painted("  ", head, "\n"));
    const left = equal.length - head.length - tail.length;
    if (left > 0) parts.push(make("span", { class: "skip" }, `… ${left} equal lines`));
    parts.push(...painted("  ", tail, "\n"));
    equal = [];
  };
  for (const [x, y] of pairs) {
    if (x > i || y > j) {
      flush(false);
      changed = true;
      run("minus", "- ", a.slice(i, x));
      run("plus", "+ ", b.slice(j, y));
    }
    if (x < a.length) equal.push(a[x]);
    [i, j] = [x + 1, y + 1];
  }
  flush(true);
  const pre = make("pre");
  for (const part of parts) pre.append(part);
  const hidden = data.stages.slice(from + 1, state.stage + 1).some((stage) => stage.changed);
  view.replaceChildren(changed ? pre : make("p", { class: "empty" }, hidden ? "Nothing differs in the text; what changed does not show in it, such as which constants are one." : "Nothing differs."));
  searched = inText();
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
  const { kernels } = chosen.graph;
  if (kernels.length > 0) controls.append(`${kernels.length} kernels`);
  searched = drawing(chosen.graph, view, make("div", { id: "note" }));
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

// What the tab that is shown finds, how much that is, and which of it is shown.
let searched = null;
let [matches, match] = [0, -1];
const search = document.getElementById("search");
const count = document.getElementById("count");
function find() {
  matches = searched ? searched.find(search.value.trim().toLowerCase()) : 0;
  match = -1;
  count.textContent = search.value.trim() === "" ? "" : `${matches} found`;
}
function next(step) {
  if (matches === 0) return;
  match = match < 0 && step < 0 ? matches - 1 : (match + step + matches) % matches;
  searched.show(match);
  count.textContent = `${match + 1} of ${matches}`;
}
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  next(event.shiftKey ? -1 : 1);
  event.preventDefault();
});

function show() {
  stages();
  searched = null;
  controls.replaceChildren();
  for (const tab of document.querySelectorAll("#tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.tab === state.tab));
  ({ text, graph, diff: difference, profile })[state.tab]();
  find();
}

document.getElementById("pipeline").textContent = `relay-opt ${data.version} · ${data.pipeline || "no passes"}`;
document.getElementById("end").textContent = data.end || "";
for (const tab of document.querySelectorAll("#tabs button")) tab.addEventListener("click", () => { state.tab = tab.dataset.tab; show(); });
const asked = new URLSearchParams(location.hash.slice(1));
if (asked.has("tab")) state.tab = asked.get("tab");
if (asked.has("find")) search.value = asked.get("find");
if (asked.has("stage")) state.stage = Math.min(data.stages.length - 1, Math.max(0, Number(asked.get("stage")) || 0));
show();
if (asked.has("find")) next(1);
