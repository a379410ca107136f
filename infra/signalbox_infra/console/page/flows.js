// Flows: a list of them, and one run as a timeline: the entries of its log, its pending commands and their ages.

import { address, clock, duration, found, get, now, since } from "./api.js";
import { buttons } from "./actions.js";
import { choices, facts, finder, h, json, link, nextPage, short, svg, table } from "./dom.js";

export const TITLE = "Flows";
const STATES = ["running", "stuck", "completed", "failed", "cancelled"];
const ACTIONS = ["resume", "cancel", "terminate"];
const OF_STATE = { running: ["cancel", "terminate"], completed: [], failed: [], cancelled: [] }; // what all of them can take
const PAGES_MAX = 5; // of a log, read at once
const WIDTH = 900;

export function show({ about, parts: [function_, flow, ...id], query }) {
  if (!flow) return kinds(about.flows);
  return id.length ? run(function_, flow, id.join("/"), about) : runs(function_, flow, query, about);
}

const kinds = (listed) => [
  h("h1", {}, TITLE),
  table(
    "The flows of the catalogue",
    ["flow", "function"],
    listed.map((each) => [link(["flows", each.function, each.flow], each.flow), each.function]),
  ),
];

async function runs(function_, flow, { state = "", label = "", page_token }, about) {
  const path = address(function_, "flows", flow);
  const here = ["flows", function_, flow];
  const listed = await get(path, { state, label, page_token });
  return [
    h("h1", {}, `Runs of ${flow}`),
    finder("Id of a run", here),
    finder("Label, as name:value", here, { name: "label", value: label }),
    choices("State", here, "state", STATES, state),
    (state || label) &&
      listed.flows.length > 0 &&
      buttons(about, OF_STATE[state] ?? ACTIONS, { function: function_, flow }, { path, query: { state, label }, items: "flows" }),
    table(
      "By id",
      ["id", "state", "started", "labels"],
      listed.flows.map((each) => [link([...here, each.id]), each.state, since(each.created_at), labelsOf(each)]),
    ),
    nextPage(here, { state, label }, listed.next_page_token),
  ];
}

const labelsOf = ({ labels = {} }) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}:${value}`)
    .join(", ");

async function run(function_, flow, id, about) {
  const [status, log] = await Promise.all([
    get(address(function_, "flows", flow, id)),
    logOf(address(function_, "flows", flow, id, "log")),
  ]);
  const waits = status.waiting_for ?? [];
  const trace = status.trace ?? status.problem?.trace;
  return [
    h("h1", {}, `${status.flow}/${status.id}`),
    facts({
      state: h("span", { class: status.state === "stuck" || status.state === "failed" ? "bad" : null }, status.state),
      log: `${status.log_length} entries`,
      labels: labelsOf(status),
      deadline: status.ended_at ? null : status.deadline_at,
      progress: status.progress === null ? null : short(status.progress),
      callbacks: status.ended_at ? null : openCallbacks(log.entries).join(", ") || null,
      problem: status.problem && status.problem.detail,
      error: status.error && (status.error.detail || status.error.title),
      result: status.result === undefined ? null : short(status.result),
    }),
    !status.ended_at && buttons(about, [...ACTIONS, "send"], { function: function_, flow, id }),
    trace && [h("h2", {}, "Stack trace"), h("pre", { tabindex: "0" }, trace)],
    h("h2", {}, "Timeline"),
    drawn(log.entries, waits),
    rows(log.entries, waits),
    log.more && h("p", { class: "note" }, `The first ${log.entries.length} entries of ${status.log_length}.`),
    h("h2", {}, "Arguments"),
    json(log.arguments ?? null),
  ];
}

/** Return the log of a run, its first pages. It is gone before its run's status is. */
async function logOf(path) {
  let page = await found(path);
  const log = { entries: [...(page?.entries ?? [])], arguments: page?.arguments, more: false };
  for (let read = 1; page?.next_page_token; read++) {
    if (read === PAGES_MAX) return { ...log, more: true };
    page = await get(path, { page_token: page.next_page_token });
    log.entries.push(...page.entries);
  }
  return log;
}

/** Show the entries in their order, each with the time since the one before, and then what the run waits for. */
function rows(entries, waits) {
  let before = null;
  const applied = entries.map((entry) => {
    const passed = before === null ? "" : `+${duration(Date.parse(entry.at) - before)}`;
    before = Date.parse(entry.at);
    return [clock(entry.at), passed, what(entry), outcome(entry)];
  });
  const open = waits.map((wait) => ({
    class: "waits",
    cells: [
      "waits",
      wait.asked_at ? `for ${duration(now() - Date.parse(wait.asked_at))}` : "",
      wait.command,
      wait.attempt > 1 ? `attempt ${wait.attempt}` : "",
    ],
  }));
  return table(
    "The log of the run, and its pending commands",
    ["time", "passed", "what", "outcome"],
    [...applied, ...open],
    "nothing yet.",
  );
}

const what = (entry) => ({ done: entry.command, event: `event ${entry.name}`, cancel: "cancelled" })[entry.entry];

const CALLBACK = "run callback ";

/** Return the events that the run's callbacks may still send: their addresses are secrets, and no page shows them. */
function openCallbacks(entries) {
  const received = entries.filter(({ entry }) => entry === "event").map(({ name }) => name);
  const signed = entries.filter(({ command, error }) => command?.startsWith(CALLBACK) && !error);
  return signed.map(({ command }) => command.slice(CALLBACK.length)).filter((event) => !received.includes(event));
}

function outcome(entry) {
  if (entry.command?.startsWith(CALLBACK) && !entry.error) return "an address (a secret)";
  if (entry.entry === "event") return short(entry.value);
  if (entry.entry === "cancel") return entry.reason ?? "";
  return entry.error
    ? h("span", { class: "bad" }, `failed: ${entry.error.detail || entry.error.title}`)
    : short(entry.result);
}

/** Draw a point an entry, and a bar up to now for each wait. */
function drawn(entries, waits) {
  const times = [...entries.map(({ at }) => at), ...waits.map(({ asked_at }) => asked_at)]
    .filter(Boolean)
    .map((at) => Date.parse(at));
  if (!times.length) return null;
  const [from, to] = [Math.min(...times), waits.length ? now() : Math.max(...times)];
  const x = (at) => 20 + ((WIDTH - 40) * (at - from)) / Math.max(1, to - from);
  const bars = waits
    .filter(({ asked_at }) => asked_at)
    .map((wait, row) => [
      svg(
        "rect",
        {
          class: "waits",
          x: x(Date.parse(wait.asked_at)),
          y: 56 + 26 * row,
          height: 18,
          rx: 3,
          width: Math.max(4, x(now()) - x(Date.parse(wait.asked_at))),
        },
        svg("title", {}, wait.command),
      ),
      svg(
        "text",
        { x: Math.min(x(Date.parse(wait.asked_at)) + 6, WIDTH - 260), y: 69.5 + 26 * row },
        short(wait.command, 40),
      ),
    ]);
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${62 + 26 * bars.length}`,
      role: "img",
      "aria-label": "The same as the table below, over time",
    },
    svg("path", { class: "edge", d: `M20 30H${WIDTH - 20}` }),
    svg("text", { x: 20, y: 16 }, clock(from)),
    svg("text", { x: WIDTH - 20, y: 16, "text-anchor": "end" }, waits.length ? "now" : clock(to)),
    entries.map((entry) =>
      svg(
        "circle",
        { class: entry.error ? "failed" : "done", cx: x(Date.parse(entry.at)), cy: 30, r: 6 },
        svg("title", {}, what(entry)),
      ),
    ),
    bars,
  );
}
