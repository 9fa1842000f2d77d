
// A drawing on a canvas: only what is in sight is drawn, so that large graphs can be moved.
const COLOURS = ["#e4e4e7", "#ffffff", "#fdf0d5", "#fdf0d5"];
const HEIGHTS = [24, 24, 24, 16];

// Draws `graph` into `view`; `note` tells what the mouse points at. Returns how to find operations.
function drawing(graph, view, note) {
  const { strings, edges, kernels } = graph;
  const nodes = graph.nodes.map(([label, title, kernel, kind, x, y, width]) =>
    ({ label: strings[label], title: strings[title], kernel, kind, x, y, width, height: HEIGHTS[kind] }));
  const canvas = make("canvas");
  const pen = canvas.getContext("2d");
  // Screen is (place - x) * scale.
  const window = { x: 0, y: 0, scale: 1 };
  let [pointed, matching, current] = [-1, new Set(), -1];
  let asked = false;

  function draw() {
    asked = false;
    const pixels = devicePixelRatio || 1;
    const [width, height] = [view.clientWidth, view.clientHeight];
    if (canvas.width !== width * pixels || canvas.height !== height * pixels) {
      [canvas.width, canvas.height] = [width * pixels, height * pixels];
    }
    pen.setTransform(pixels, 0, 0, pixels, 0, 0);
    pen.clearRect(0, 0, width, height);
    const scale = window.scale * pixels;
    pen.setTransform(scale, 0, 0, scale, -window.x * scale, -window.y * scale);
    const [left, top] = [window.x, window.y];
    const [right, bottom] = [left + width / window.scale, top + height / window.scale];
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const readable = window.scale > 0.35;
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    kernels.forEach(([name, x, y, w, h], kernel) => {
      if (x > right || x + w < left || y > bottom || y + h < top) return;
      pen.fillStyle = colour(kernel, 0.28);
      pen.strokeStyle = colour(kernel, 1);
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.roundRect(x, y, w, h, 8);
      pen.fill();
      pen.stroke();
      if (!readable) return;
      pen.textAlign = "left";
      pen.fillStyle = dark ? "#ddd" : "#444";
      pen.fillText(name, x + 8, y + 11);
    });
    for (let at = 0; at < edges.length; at += 3) {
      const [a, b] = [nodes[edges[at]], nodes[edges[at + 1]]];
      const marked = edges[at] === pointed || edges[at + 1] === pointed;
      const [x0, x1] = [a.x, b.x];
      if (Math.max(x0, x1) < left - 50 || Math.min(x0, x1) > right + 50) continue;
      if (Math.max(a.y, b.y) < top || Math.min(a.y, b.y) > bottom) continue;
      pen.strokeStyle = marked ? "#d33" : "#8a8a8a";
      pen.lineWidth = marked ? 2 : 1;
      pen.setLineDash(edges[at + 2] === 1 ? [4, 3] : []);
      pen.beginPath();
      if (a.kind === 3) {
        // A weight stands on the right of what reads it.
        pen.moveTo(a.x - a.width / 2, a.y);
        pen.lineTo(b.x + b.width / 2, b.y);
      } else {
        const [y0, y1] = [a.y + 12, b.y - 12];
        const bend = Math.max(12, (y1 - y0) / 3);
        pen.moveTo(x0, y0);
        pen.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      }
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.textAlign = "center";
    nodes.forEach((node, index) => {
      const [x, y] = [node.x - node.width / 2, node.y - node.height / 2];
      if (x > right || x + node.width < left || y > bottom || y + node.height < top) return;
      const marked = index === pointed || matching.has(index);
      pen.fillStyle = node.kind === 0 && node.kernel >= 0 ? colour(node.kernel, 1) : COLOURS[node.kind];
      pen.strokeStyle = marked ? "#d33" : "#0006";
      pen.lineWidth = index === current ? 5 : marked ? 3 : 1;
      pen.beginPath();
      pen.roundRect(x, y, node.width, node.height, node.kind === 3 ? 8 : 5);
      pen.fill();
      pen.stroke();
      if (!readable) return;
      pen.fillStyle = "#111";
      pen.fillText(node.label, node.x, node.y + 0.5);
    });
  }
  const again = () => {
    if (!asked) requestAnimationFrame(draw);
    asked = true;
  };

  const whole = () => {
    const ends = { left: Infinity, right: 1, bottom: 1 };
    for (const [, x, , w] of kernels) {
      ends.left = Math.min(ends.left, x);
      ends.right = Math.max(ends.right, x + w);
    }
    for (const node of nodes) {
      ends.left = Math.min(ends.left, node.x - node.width / 2);
      ends.right = Math.max(ends.right, node.x + node.width / 2);
      ends.bottom = Math.max(ends.bottom, node.y + 40);
    }
    if (ends.left === Infinity) ends.left = 0;
    const [width, height] = [ends.right - ends.left + 40, ends.bottom + 40];
    window.scale = Math.min(2, view.clientWidth / width, view.clientHeight / height);
    window.x = (ends.left + ends.right) / 2 - view.clientWidth / window.scale / 2;
    window.y = -20;
    again();
  };
  const at = (event) => {
    const corner = canvas.getBoundingClientRect();
    return [window.x + (event.clientX - corner.left) / window.scale, window.y + (event.clientY - corner.top) / window.scale];
  };
  const tell = (index) => {
    const node = nodes[index];
    note.textContent = node ? `${node.label}\n${node.title}` : HINT;
  };

  canvas.addEventListener("dblclick", whole);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = at(event);
    const factor = Math.exp(-event.deltaY * 0.0015);
    window.scale *= factor;
    window.x = x - (x - window.x) / factor;
    window.y = y - (y - window.y) / factor;
    again();
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, window: { ...window } }; });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons !== 0) {
      window.x = held.window.x - (event.clientX - held.x) / window.scale;
      window.y = held.window.y - (event.clientY - held.y) / window.scale;
      return again();
    }
    const [x, y] = at(event);
    const found = nodes.findIndex((node) => Math.abs(node.x - x) <= node.width / 2 && Math.abs(node.y - y) <= node.height / 2);
    if (found === pointed) return;
    pointed = found;
    tell(found);
    again();
  });
  new ResizeObserver(again).observe(view);
  view.replaceChildren(canvas, note);
  tell(-1);
  whole();
  // What is too large to be read at once is shown from its beginning.
  if (window.scale < 0.5 && nodes.length > 0) {
    const first = nodes.find((node) => node.kind === 0) || nodes[0];
    Object.assign(window, { scale: 1, x: first.x - view.clientWidth / 2, y: -20 });
  }
  again();

  return {
    // Marks the operations whose text holds `wanted`; how many there are.
    find(wanted) {
      const holds = (node) => `${node.label}\n${node.title}`.toLowerCase().includes(wanted);
      matching = new Set(wanted === "" ? [] : nodes.flatMap((node, index) => (holds(node) ? [index] : [])));
      current = -1;
      again();
      return matching.size;
    },
    // Shows match `index`.
    show(index) {
      current = [...matching][index];
      window.scale = Math.max(window.scale, 0.8);
      window.x = nodes[current].x - view.clientWidth / window.scale / 2;
      window.y = nodes[current].y - view.clientHeight / window.scale / 2;
      tell(current);
      again();
    },
  };
}
const HINT = "Point at an operation. Drag to move, turn the wheel to zoom, double-click to see all.";

