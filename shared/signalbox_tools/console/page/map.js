// A map of the system: what calls which function, through which queue, from the catalogue; and how many tasks wait now.

import { buttons } from "./actions.js";
import { get } from "./api.js";
import { alarm, badge, fitted, h, link, place, svg, table, widthOf } from "./dom.js";
import { queuesNow, queueTable } from "./queues.js";

export const TITLE = "Map";
const COLUMNS = { source: { x: 4, width: 220 }, function: { x: 330, width: 250 }, queue: { x: 686, width: 210 } };
const WIDTH = 900;
const ROW = { height: 26, gap: 8 };
const PEOPLE = "people";

export async function show({ about, parts: [chosen] }) {
  const [system, now, paused, minutes] = await Promise.all([
    get("/console/map"),
    queuesNow(about),
    about.has_schedules ? get("/console/schedules").catch((error) => ({ error: error.message, paused: [] })) : { paused: [] },
    about.has_minutes ? get("/console/minutes").catch(() => ({ functions: [] })) : { functions: [] },
  ]);
  const depths = new Map(now.queues.map((each) => [each.name, each]));
  const requests = new Map(minutes.functions.map((each) => [each.function, each]));
  const catalogued = new Map(system.queues.map((each) => [each.name, each]));
  const stateOf = ({ name }) => (paused.paused.includes(name) ? "paused" : "running");
  const nodes = placed(nodesOf(system, depths), edgesOf(system));
  const edges = edgesOf(system).filter(({ from, to }) => nodes.has(from) && nodes.has(to));
  const near = edges.filter(({ from, to }) => !chosen || [from, to].includes(chosen));
  return [
    h("h1", {}, TITLE),
    h(
      "p",
      { class: "note drawn" },
      "Left what calls functions, right the queues. A line leads from a function to the queues that it fills, a dashed one from a queue to the functions that it calls.",
    ),
    chosen &&
      h("p", {}, "Only ", h("strong", {}, chosen.split(":").at(-1)), " and what is next to it. ", link(["map"], "Show all")),
    drawn(nodes, near, chosen),
    table(
      "Functions",
      ["function", "called by", "fills", "tasks", "flows and objects", ...(about.has_minutes ? ["requests", "failed"] : [])],
      system.functions.map((each) => [
        link(["map", `function:${each.name}`], each.name),
        [each.invoked_by.join(", "), each.open && [" ", badge("open")]],
        each.enqueues.join(", "),
        each.tasks.join(", "),
        [
          ...each.flows.map((flow) => [link(["flows", each.segment, flow], flow), " "]),
          ...each.objects.map((kind) => [link(["objects", each.segment, kind], kind), " "]),
        ],
        ...(about.has_minutes ? [sum(requests.get(each.name)?.requests ?? []), alarm(sum(requests.get(each.name)?.failed ?? []))] : []),
      ]),
    ),
    about.has_minutes && h("p", { class: "note" }, "Requests are those of the last hour."),
    h("h2", {}, "Queues"),
    now.queues.length || now.error
      ? queueTable(now, about, ["at most a second", "calls"], ({ name }) => [
          catalogued.get(name)?.dispatches_per_second ?? "",
          (catalogued.get(name)?.calls ?? []).join(", "),
        ])
      : table(
          "Queues",
          ["queue", "at most a second", "calls"],
          system.queues.map((each) => [link(["map", `queue:${each.name}`], each.name), each.dispatches_per_second, each.calls.join(", ")]),
        ),
    paused.error && h("p", { class: "note" }, `Not readable: ${paused.error}`),
    table(
      "Schedules",
      ["schedule", "state", "function", "when", "action"],
      system.schedules.map((each) => [
        each.name,
        paused.error || !about.has_schedules ? "" : badge(stateOf(each)),
        each.task ? `${each.function}.${each.task}` : each.function,
        each.cron,
        buttons(about, [stateOf(each) === "paused" ? "resume-schedule" : "pause-schedule"], { schedule: each.name }) ?? "",
      ]),
    ),
    table(
      "Triggers",
      ["trigger", "function", "of the records"],
      system.triggers.map((each) => [each.name, each.function, each.document]),
    ),
  ];
}

const sum = (counts) => counts.reduce((total, count) => total + count, 0);

/** Return the nodes: {id, column, text, to, live}. */
const nodesOf = ({ functions, queues, triggers, schedules }, depths) => [
  { id: `source:${PEOPLE}`, column: "source", text: "people and programs" },
  ...triggers.map(({ name, document: of }) => ({ id: `source:trigger ${name}`, column: "source", text: `writes of ${of}` })),
  ...schedules.map(({ name, cron }) => ({ id: `source:schedule ${name}`, column: "source", text: `${name} ${cron}` })),
  ...functions.map(({ name, own }) => ({ id: `function:${name}`, column: "function", text: name, own })),
  ...queues.map(({ name }) => ({
    id: `queue:${name}`,
    column: "queue",
    text: name,
    aside: depths.get(name)?.state === "paused" ? "paused" : depths.get(name)?.tasks.toLocaleString("en"),
    live: depths.get(name)?.tasks > 0,
  })),
];

/** Return the nodes by id with their places: each column is spread over the height of the longest one, and those left and
 *  right of the functions are in the order of the functions that they are connected with. */
function placed(unordered, edges) {
  const at = new Map(unordered.map(({ id }, index) => [id, index]));
  const order = new Map(unordered.map(({ id, column }) => [id, column === "function" ? at.get(id) : middle(id, edges, at)]));
  const nodes = [...unordered].sort((one, other) => order.get(one.id) - order.get(other.id));
  const counts = Object.fromEntries(Object.keys(COLUMNS).map((column) => [column, nodes.filter((each) => each.column === column).length]));
  const height = Math.max(...Object.values(counts)) * (ROW.height + ROW.gap);
  const next = Object.fromEntries(Object.keys(COLUMNS).map((column) => [column, 0]));
  return new Map(
    nodes.map((node) => {
      const share = (next[node.column]++ + 0.5) / counts[node.column];
      return [node.id, { ...node, ...COLUMNS[node.column], y: share * height + ROW.gap / 2 - ROW.height / 2, total: height + ROW.gap }];
    }),
  );
}

function middle(id, edges, at) {
  const places = edges.flatMap(({ from, to }) => (from === id ? [at.get(to)] : to === id ? [at.get(from)] : []));
  return places.reduce((total, place) => total + place, 0) / Math.max(places.length, 1);
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

function box({ id, text, aside, own, live, x, y, width }, isChosen) {
  const cut = fitted(text, width - 16 - (aside ? widthOf(aside) + 8 : 0));
  return svg(
    "a",
    { href: place(isChosen ? ["map"] : ["map", id]) },
    svg(
      "g",
      { "data-node": id },
      svg("title", {}, text),
      svg("rect", { class: `node${isChosen || live ? " chosen" : ""}${own ? " own" : ""}`, x, y, width, height: ROW.height, rx: 5 }),
      svg("text", { x: x + 8, y: y + 17.5 }, cut),
      aside && svg("text", { class: "aside", x: x + width - 8, y: y + 17.5, "text-anchor": "end" }, aside),
    ),
  );
}
