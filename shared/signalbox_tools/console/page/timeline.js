// A run as a timeline to scale: a row for each command from its schedule to its end, on one axis of time, and its details.

import { clock, duration, now } from "./api.js";
import { badge, facts, h, isLarge, link, moment, short, svg, value } from "./dom.js";

const CALLBACK = "run callback ";
const TICKS_MAX = 6;
const STEPS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400];

/** Return the rows of a run {entries, spans, waits, ended_at} as they happened, each with the times of its bar. Without
 *  spans (the code does not fit the log any more) it is what the log has: when commands ended, and what is pending. */
export function happened({ entries, spans, waits, ended_at }) {
  const rows = spans
    ? spans.map((span) => ({ ...span, of: isOwn(span) ? entries[span.entry] : undefined }))
    : [
        ...entries.filter(({ entry }) => entry === "done").map((of) => point(of, of.command, of.error ? "failed" : "done")),
        ...waits.map((wait) => ({ ...wait, outcome: "pending", started_at: wait.asked_at, ended_at: null })),
      ];
  const known = new Set(rows.map(({ of }) => of));
  const others = entries.filter((entry) => entry.entry !== "done" && !known.has(entry));
  for (const of of others) rows.push(point(of, of.name ? `${of.entry} ${of.name} came` : (of.command ?? of.entry), of.entry));
  const from = Math.min(...rows.flatMap(({ started_at, ended_at: end }) => [started_at, end]).filter(Boolean).map(Date.parse));
  const stuck = new Map(waits.map((wait) => [wait.path, wait]));
  return rows
    .map((row) => ({ ...row, ...(row.outcome === "pending" && stuck.get(row.path)?.stuck && { stuck: stuck.get(row.path).stuck }) }))
    .map((row) => ({
      ...row,
      from: row.started_at ? Date.parse(row.started_at) : from,
      to: row.ended_at ? Date.parse(row.ended_at) : (ended_at && Date.parse(ended_at)) || now(),
    }))
    .sort((one, other) => one.from - other.from);
}

const isOwn = ({ outcome, entry }) => entry !== null && (outcome === "done" || outcome === "failed");

const point = (of, command, outcome) => ({ path: of.path ?? "", command, outcome, started_at: of.at, ended_at: of.at, of });

/** Return the timeline: its axis, and a row that opens for each command. */
export function timeline(rows, where) {
  if (!rows.length) return h("p", { class: "note" }, "Nothing has happened yet.");
  const [from, to] = [Math.min(...rows.map((row) => row.from)), Math.max(...rows.map((row) => row.to))];
  const scale = { from, length: Math.max(1, to - from) };
  return h("div", { class: "timeline" }, axis(scale), rows.map((row) => one(row, scale, where)));
}

const percent = (share) => `${Math.round(share * 10_000) / 100}%`;

/** Return a bar on the axis, from its beginning to its end as shares of the axis' length. */
export const bar = (kind, { x, width }) =>
  svg(
    "svg",
    { class: "lane", "aria-hidden": "true" },
    svg("rect", {
      class: `bar ${kind}`,
      x: percent(x),
      width: percent(Math.max(0.001, width)), // a rectangle without a width is not drawn
      y: 3,
      height: 14,
      rx: 2,
    }),
  );

/** Return the axis of times in milliseconds. */
export function axis({ from, length }) {
  const step = STEPS_SECONDS.find((seconds) => length / 1000 / seconds <= TICKS_MAX) ?? length / 1000 / TICKS_MAX;
  const ticks = Array.from({ length: Math.floor(length / 1000 / step) + 1 }, (_, number) => number * step);
  const drawn = svg(
    "svg",
    { class: "lane", "aria-hidden": "true" },
    ticks.map((seconds) => {
      const at = (seconds * 1000) / length;
      const anchor = at < 0.05 ? "start" : at > 0.93 ? "end" : "middle";
      return svg("text", { x: percent(at), y: 13, "text-anchor": anchor }, seconds ? `+${amount(seconds)}` : "0");
    }),
  );
  return h("div", { class: "row axis" }, h("span", {}, `from ${clock(from)}`), drawn, h("span", { class: "took" }, amount(length / 1000)));
}

const amount = (seconds) => {
  const milliseconds = Math.round(seconds * 1000);
  return milliseconds < 1000 ? `${milliseconds} ms` : duration(milliseconds, 1);
};

function one(row, { from, length }, where) {
  const bad = row.outcome === "failed" || row.stuck || (row.last_error && row.outcome === "pending");
  return h(
    "details",
    { class: `span ${row.outcome}`, "data-key": `${row.path} ${row.command}`, "data-row": true },
    h(
      "summary",
      { class: "row" },
      h("span", { class: bad ? "name bad" : "name" }, row.command, more(row)),
      bar(row.outcome, { x: (row.from - from) / length, width: (row.to - row.from) / length }),
      h("span", { class: "took" }, took(row)),
    ),
    details(row, where),
  );
}

/** Return the text next to the name of a command in its row. */
function more(row) {
  const said = [
    row.attempt > 1 && (row.outcome === "pending" ? `attempt ${row.attempt}` : `${row.attempt} attempts`),
    row.starts > 1 && `start ${row.starts}`,
    row.stuck && "stuck below",
    row.outcome === "abandoned" && "abandoned",
  ].filter(Boolean);
  return said.length ? h("small", {}, ` ${said.join(", ")}`) : null;
}

function took({ outcome, from, to, due_at }) {
  if (["event", "update", "cancel"].includes(outcome)) return "";
  const lasts = outcome === "pending" || outcome === "held";
  return [`${lasts ? "for " : ""}${duration(to - from, 1)}`, lasts && due_at && h("small", {}, ` until ${clock(due_at)}`)];
}

function details(row, { function: function_, flow, id, path, entries = [], retry = () => null }) {
  const { of, run } = row;
  const number = entries.indexOf(of) + 1;
  const secret = row.command.startsWith(CALLBACK);
  const kind = row.command.split(" ", 1)[0];
  const named = row.command.slice(kind.length + 1);
  return h(
    "div",
    { class: "more" },
    facts({
      state: badge(row.outcome),
      started: row.started_at && moment(row.started_at),
      ended: row.ended_at && moment(row.ended_at),
      [DUE[kind] ?? "next attempt"]: row.due_at && row.ended_at === null && moment(row.due_at),
      code: row.place,
      attempt: row.attempt,
      "error before": row.last_error,
      error: of?.error && (of.error.detail || of.error.title),
      reason: of?.reason,
      answer: of?.update && link(["flows", function_, flow, id], "Show", { update: of.update }),
      "sub-flow": run && link(["flows", run.function ?? function_, run.flow, run.id], `${run.flow}/${run.id}`),
      stuck: row.stuck && [link(["flows", function_, row.stuck.flow, row.stuck.id], `${row.stuck.flow}/${row.stuck.id}`), `: ${row.stuck.detail}`],
      semaphore: ["lock", "holds", "renew"].includes(kind) ? link(["semaphores", named]) : null,
      entry: number || null,
      path: row.path,
    }),
    number > 0 && retry(number - 1),
    row.arguments && folded("Arguments", row.arguments, row, path),
    of && "result" in of && of.result !== null && (secret ? h("p", {}, "The result is an address, a secret.") : folded("Result", of.result, row, path)),
    of && "value" in of && folded("Value", of.value, row, path),
  );
}

const DUE = { sleep: "wakes", holds: "lease ends" };

/** Return a value that shows its beginning, and opens. */
const folded = (name, shown, row, path) =>
  h(
    "details",
    { "data-key": `${name} ${row.path}` },
    h("summary", {}, `${name}: `, h("code", {}, isLarge(shown) ? "a large value" : short(shown, 80))),
    value(shown, path),
  );
