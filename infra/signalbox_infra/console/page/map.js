// A map of the system: what calls which function, through which queue, from the catalogue; and how many tasks wait now.

import { get } from "./api.js";
import { badge, h, link, place, svg, table } from "./dom.js";

export const TITLE = "Map";
const COLUMNS = { source: { x: 4, width: 220 }, function: { x: 330, width: 250 }, queue: { x: 686, width: 210 } };
const WIDTH = 900;
const ROW = { height: 26, gap: 8 };
const LETTERS = 27;
const PEOPLE = "people";

export async function show({ about, parts: [chosen] }) {
  const [system, status] = await Promise.all([get("/console/map"), about.status_is_quick ? get("/console/status") : null]);
  const depths = new Map((status?.lines ?? []).map(({ name, text, well }) => [name.replace(/^queue /, ""), { text, well }]));
  const nodes = placed(nodesOf(system, depths));
  const edges = edgesOf(system).filter(({ from, to }) => nodes.has(from) && nodes.has(to));
  const near = edges.filter(({ from, to }) => !chosen || [from, to].includes(chosen));
  return [
    h("h1", {}, TITLE),
    h(
      "p",
      { class: "note" },
      "Left what calls functions, right the queues. A line leads from a function to the queues that it fills, a dashed one from a queue to the functions that it calls.",
    ),
    chosen &&
      h("p", {}, "Only ", h("strong", {}, chosen.split(":").at(-1)), " and what is next to it. ", link(["map"], "Show all")),
    drawn(nodes, near, chosen),
    table(
      "Functions",
      ["function", "called by", "fills", "tasks", "flows and objects"],
      system.functions.map((each) => [
        link(["map", `function:${each.name}`], each.name),
        [each.invoked_by.join(", "), each.open && [" ", badge("open")]],
        each.enqueues.join(", "),
        each.tasks.join(", "),
        [
          ...each.flows.map((flow) => [link(["flows", each.segment, flow], flow), " "]),
          ...each.objects.map((kind) => [link(["objects", each.segment, kind], kind), " "]),
        ],
      ]),
    ),
    table(
      "Queues",
      ["queue", "now", "calls", "at most a second"],
      system.queues.map((each) => [
        link(["map", `queue:${each.name}`], each.name),
        depth(depths.get(each.name), about),
        each.calls.join(", "),
        each.dispatches_per_second,
      ]),
    ),
    table(
      "Schedules",
      ["schedule", "function", "when"],
      system.schedules.map((each) => [each.name, each.task ? `${each.function}.${each.task}` : each.function, each.cron]),
    ),
    table(
      "Triggers",
      ["trigger", "function", "of the records"],
      system.triggers.map((each) => [each.name, each.function, each.document]),
    ),
  ];
}

const depth = (found, about) =>
  found ? h("span", { class: found.well ? null : "bad" }, found.text) : about.status_is_quick ? "" : link(["overview"], "ask gcloud");

/** Return the nodes: {id, column, text, to, live}. */
const nodesOf = ({ functions, queues, triggers, schedules }, depths) => [
  { id: `source:${PEOPLE}`, column: "source", text: "people and programs" },
  ...triggers.map(({ name, document: of }) => ({ id: `source:trigger ${name}`, column: "source", text: `writes of ${of}` })),
  ...schedules.map(({ name, cron }) => ({ id: `source:schedule ${name}`, column: "source", text: `${name} ${cron}` })),
  ...functions.map(({ name, own }) => ({ id: `function:${name}`, column: "function", text: name, own })),
  ...queues.map(({ name }) => ({
    id: `queue:${name}`,
    column: "queue",
    text: depths.has(name) ? `${name}: ${depths.get(name).text}` : name,
    live: /^[^0]/.test(depths.get(name)?.text ?? "0"),
  })),
];

/** Return the nodes by id with their places: each column is in the middle of the highest one. */
function placed(nodes) {
  const heights = Object.fromEntries(
    Object.keys(COLUMNS).map((column) => [column, nodes.filter((each) => each.column === column).length * (ROW.height + ROW.gap)]),
  );
  const height = Math.max(...Object.values(heights));
  const next = Object.fromEntries(Object.entries(heights).map(([column, own]) => [column, (height - own) / 2]));
  return new Map(
    nodes.map((node) => {
      const y = next[node.column] + ROW.gap;
      next[node.column] += ROW.height + ROW.gap;
      return [node.id, { ...node, ...COLUMNS[node.column], y, total: height + 2 * ROW.gap }];
    }),
  );
}

const edgesOf = ({ functions, queues, triggers, schedules }) => [
  ...functions
    .filter(({ invoked_by }) => invoked_by.includes(PEOPLE))
    .map(({ name }) => ({ from: `source:${PEOPLE}`, to: `function:${name}` })),
  ...triggers.map((each) => ({ from: `source:trigger ${each.name}`, to: `function:${each.function}` })),
  ...schedules.map((each) => ({ from: `source:schedule ${each.name}`, to: `function:${each.function}` })),
  ...functions.flatMap(({ name, enqueues }) => enqueues.map((queue) => ({ from: `function:${name}`, to: `queue:${queue}` }))),
  ...queues.flatMap(({ name, calls }) => calls.map((called) => ({ from: `queue:${name}`, to: `function:${called}`, back: true }))),
];

function drawn(nodes, edges, chosen) {
  const near = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const shown = [...nodes.values()].filter(({ id }) => !chosen || id === chosen || near.has(id));
  return svg(
    "svg",
    {
      class: "map",
      viewBox: `0 0 ${WIDTH} ${[...nodes.values()][0].total}`,
      role: "group",
      "aria-label": "The functions and their queues; the tables below have the same",
    },
    edges.map((edge) => line(edge, nodes)),
    shown.map((node) => box(node, node.id === chosen)),
  );
}

function line({ from, to, back }, nodes) {
  const [start, end] = [nodes.get(from), nodes.get(to)];
  const [x1, x2] = back ? [start.x, end.x + end.width] : [start.x + start.width, end.x];
  const [y1, y2] = [start, end].map(({ y }) => y + ROW.height / 2 + (back ? 5 : -5));
  const bend = (x2 - x1) / 2;
  return svg("path", {
    class: back ? "edge back" : "edge",
    "data-edge": `${from}→${to}`,
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
  });
}

function box({ id, text, own, live, x, y, width }, isChosen) {
  const cut = text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text;
  return svg(
    "a",
    { href: place(isChosen ? ["map"] : ["map", id]) },
    svg(
      "g",
      { "data-node": id },
      svg("title", {}, text),
      svg("rect", { class: `node${isChosen || live ? " chosen" : ""}${own ? " own" : ""}`, x, y, width, height: ROW.height, rx: 5 }),
      svg("text", { x: x + 8, y: y + 17.5 }, cut),
    ),
  );
}
