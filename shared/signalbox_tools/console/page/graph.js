// A small directed graph as SVG, its nodes on a circle or around one of them. Whoever draws one shows a table of the same
// beside it.

import { fitted, place, svg } from "./dom.js";

const WIDTH = 900;
const NODE = { width: 170, height: 34 };
const LETTERS = 22;

/** Return a drawing of nodes [{id, to?, marked?}] and edges [{from, to, text?, marked?}]. If one is the `hub`, it is the
 *  first node, and the others are around it. */
export function graph(label, nodes, edges, { hub = false } = {}) {
  const at = hub ? around(nodes) : positions(nodes);
  const height = Math.max(...[...at.values()].map(({ y }) => y)) + NODE.height + 16;
  const arrows = ["", "marked"].map((kind) =>
    svg(
      "marker",
      {
        id: `arrow${kind}`,
        viewBox: "0 0 10 10",
        refX: 10,
        refY: 5,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      },
      svg("path", { d: "M0 0 10 5 0 10z", fill: kind ? "#a4221a" : "#6b7a8a" }),
    ),
  );
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": label },
    svg("defs", {}, arrows),
    edges.map((edge) => arrow(edge, at, edges.some(({ from, to }) => from === edge.to && to === edge.from))),
    nodes.map((node) => box(node, at.get(node.id))),
  );
}

/** Return where the nodes stand: the first on top, the others clockwise. */
function positions(nodes) {
  const radius = nodes.length < 2 ? 0 : Math.min(215, 70 + 22 * nodes.length);
  const middle = { x: WIDTH / 2, y: radius * 0.8 + NODE.height };
  return new Map(
    nodes.map(({ id }, index) => {
      const angle = (2 * Math.PI * index) / nodes.length - Math.PI / 2;
      return [id, { x: middle.x + 1.7 * radius * Math.cos(angle), y: middle.y + 0.8 * radius * Math.sin(angle) }];
    }),
  );
}

/** Return where the nodes stand: the first in the middle, the others around it. */
function around([first, ...others]) {
  const radius = Math.min(215, 140 + 10 * others.length);
  const middle = { x: WIDTH / 2, y: radius * 0.8 + NODE.height };
  const places = others.length + ((others.length + 1) % 2); // an odd number: no line leads behind the middle
  const placed = others.map(({ id }, index) => {
    const angle = (2 * Math.PI * index) / places - Math.PI / 2;
    return [id, { x: middle.x + 1.65 * radius * Math.cos(angle), y: middle.y + 0.8 * radius * Math.sin(angle) }];
  });
  return new Map([[first.id, middle], ...placed]);
}

function box({ id, to, marked }, { x, y }) {
  const drawn = svg(
    "g",
    { "data-node": id },
    svg("title", {}, id),
    svg("rect", {
      class: marked ? "node marked" : "node",
      x: x - NODE.width / 2,
      y: y - NODE.height / 2,
      rx: 6,
      ...NODE,
    }),
    svg("text", { x, y: y + 4.5, "text-anchor": "middle" }, fitted(id, NODE.width - 12)),
  );
  return to ? svg("a", { href: place(to) }, drawn) : drawn;
}

/** Draw an edge. An edge that also `returns` is drawn next to the line between the middles, so that both are seen. */
function arrow({ from, to, text, marked }, at, returns) {
  const aside = returns ? shifted(at.get(from), at.get(to)) : { x: 0, y: 0 };
  const [start, end] = [border(at.get(from), at.get(to)), border(at.get(to), at.get(from))].map(({ x, y }) => ({
    x: x + aside.x,
    y: y + aside.y,
  }));
  const kind = marked ? "marked" : "";
  const short = text && text.length > LETTERS ? `…${text.slice(1 - LETTERS)}` : text;
  return svg(
    "g",
    { "data-edge": `${from}→${to}` },
    svg("path", {
      class: `edge ${kind}`,
      d: `M${start.x} ${start.y}L${end.x} ${end.y}`,
      "marker-end": `url(#arrow${kind})`,
    }),
    short &&
      svg(
        "text",
        {
          class: `label ${kind}`,
          x: start.x + 0.45 * (end.x - start.x),
          y: start.y + 0.45 * (end.y - start.y) + (isFlat(start, end) ? -7 : 4), // above a flat line, whose arrow it would hide
          "text-anchor": !returns ? "middle" : aside.x < 0 ? "end" : "start",
          dx: returns ? Math.sign(aside.x) * 6 : null,
        },
        short,
        svg("title", {}, text),
      ),
  );
}

const ASIDE = 9;

/** Return by how much an edge moves to the right of its direction. */
function shifted(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  return { x: (-dy / length) * ASIDE, y: (dx / length) * ASIDE };
}

const isFlat = (start, end) => Math.abs(end.y - start.y) < 12;

/** Return where a line from one node's middle towards another's leaves its box. */
function border(from, towards) {
  const [dx, dy] = [towards.x - from.x, towards.y - from.y];
  const share = Math.min((NODE.width / 2 + 3) / Math.abs(dx || 1e-9), (NODE.height / 2 + 3) / Math.abs(dy || 1e-9));
  return { x: from.x + dx * Math.min(share, 1), y: from.y + dy * Math.min(share, 1) };
}
