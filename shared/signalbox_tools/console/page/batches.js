// Batches: which there are, and one as it progresses, live by its stream of server-sent events.

import { Events, address, get, taskName } from "./api.js";
import { buttons } from "./actions.js";
import { badge, brief, choices, facts, finder, h, link, moment, pager, short, svg, table } from "./dom.js";

export const TITLE = "Batches";
const STREAMED_UNITS = 2_000; // a stream begins with every unit that has ended: beyond so many, only counts are read
const STATES = ["open", "sealed", "completed", "cancelled"];
const UNITS_SHOWN = 50;
const REFUSED_MILLISECONDS = 15_000;

export const show = ({ about, parts, query, visit }) => (parts.length ? one(parts[0], query, visit, about) : all(query));

async function all({ state = "", prefix = "", page_token }) {
  const listed = await get("/batches", { state, prefix, page_token });
  return [
    h("h1", {}, TITLE),
    finder("Id of a batch", ["batches"]),
    finder("Ids that begin with", ["batches"], { name: "prefix", value: prefix, kept: { state } }),
    choices("State", ["batches"], "state", STATES, state, "all", { prefix }),
    table(
      "By id",
      ["id", "state", "units", "succeeded", "failed", "task", "deadline"],
      listed.batches.map((each) => [
        link(["batches", each.id]),
        badge(each.state),
        each.size ?? "",
        each.succeeded ?? "",
        each.failed ?? "",
        taskName(each.task),
        moment(each.deadline_at),
      ]),
      state || prefix ? "none match." : "none. POST /batches creates one.",
    ),
    pager(["batches"], { state, prefix, page_token }, listed.next_page_token),
    h("p", { class: "note" }, "The counts are there once a batch has ended; its own page counts while it runs."),
  ];
}

async function one(id, { page_token = "" }, visit, about) {
  const stream = watched(id, visit);
  const counts = stream.live && stream.counts ? stream.counts : await get(address("batches", id));
  if (counts.size <= STREAMED_UNITS) stream.open(counts);
  const isStreamed = stream.live && !page_token;
  const failed = stream.live ? stream.of("failed") : (await unitsOf(id, counts, "failed")).units;
  const succeeded = isStreamed ? { units: stream.of("succeeded") } : await unitsOf(id, counts, "succeeded", page_token);
  return [
    h("h1", {}, counts.id),
    facts({
      state: badge(counts.state),
      reason: counts.reason,
      task: counts.task && taskName(counts.task),
      units: counts.size,
      succeeded: counts.succeeded,
      failed: counts.failed,
      remaining: counts.remaining,
      then: counts.then && link(["batches", counts.then]),
    }),
    h("progress", {
      max: Math.max(counts.size, 1),
      value: counts.succeeded + counts.failed,
      "aria-label": "Units with an outcome",
    }),
    h("p", { class: "note" }, stream.live ? "Live." : ""),
    buttons(about, actionsOf(counts), { id }),
    counts.size <= STREAMED_UNITS && stream.units.size > 0 && squares(counts, stream.units),
    counts.last_error && [
      h("h2", {}, "Last error of a unit that is being retried"),
      facts({
        task: taskName(counts.last_error),
        error: counts.last_error.error,
        attempts: counts.last_error.attempts,
        next: moment(counts.last_error.next_at),
      }),
    ],
    h("h2", {}, "Failed units"),
    table(
      `The first ${UNITS_SHOWN}`,
      ["unit", "attempt", "error"],
      byIndex(failed)
        .slice(0, UNITS_SHOWN)
        .map((unit) => [unit.index, unit.attempt, short(unit.error, 400)]),
    ),
    h("h2", {}, "Results"),
    table(
      isStreamed ? `Of the first ${UNITS_SHOWN}` : "Of units that succeeded",
      ["unit", "attempt", "result"],
      byIndex(succeeded.units)
        .slice(0, isStreamed ? UNITS_SHOWN : undefined)
        .map((unit) => [unit.index, unit.attempt, resultOf(id, unit)]),
    ),
    pager(["batches", id], { page_token }, succeeded.next_page_token),
  ];
}

const actionsOf = ({ state, failed, task }) => [
  ...(state === "open" || state === "sealed" ? ["cancel-batch"] : []),
  ...(task && failed && state !== "cancelled" ? ["retry-batch"] : []),
];

/** Return a page of units as they are now, also those that were retried after the end of their batch. */
const unitsOf = async (id, counts, state, page_token) =>
  counts[state] ? get(address("batches", id, "units"), { state, page_token }) : { units: [] };

const byIndex = (units) => units.sort((one_, other) => one_.index - other.index);

const resultOf = (id, { index, result }) => brief(result, address("batches", id, "units", String(index)), 400);

/** Draw a square a unit: green if it succeeded, red if it failed, grey if it has no outcome. */
function squares({ size, succeeded, failed, remaining }, units) {
  const columns = Math.min(64, Math.max(16, Math.ceil(Math.sqrt(size))));
  const drawn = Array.from({ length: size }, (_, index) =>
    svg(
      "rect",
      {
        class: units.get(index)?.state ?? "running",
        x: (index % columns) * 14 + 2,
        y: Math.floor(index / columns) * 14 + 2,
        width: 12,
        height: 12,
        rx: 2,
      },
      svg("title", {}, `unit ${index}`),
    ),
  );
  const width = columns * 14 + 2;
  return svg(
    "svg",
    {
      width,
      viewBox: `0 0 ${width} ${Math.ceil(size / columns) * 14 + 2}`,
      role: "img",
      "aria-label": `${succeeded} units succeeded, ${failed} failed, ${remaining} have no outcome`,
    },
    drawn,
  );
}

/** Return the stream of a batch for as long as its page is shown; it is closed while the page is hidden. */
function watched(id, visit) {
  visit.state.stream ??= new Stream(id, visit);
  if (document.hidden) visit.state.stream.close();
  return visit.state.stream;
}

class Stream {
  constructor(id, visit) {
    Object.assign(this, {
      id,
      visit,
      units: new Map(),
      counts: null,
      source: null,
      last: "",
      ended: false,
      refusedAt: 0,
    });
    visit.onLeave(() => this.close());
  }

  get live() {
    return this.source?.live ?? false;
  }

  of(wanted) {
    return [...this.units.values()].filter(({ state }) => state === wanted);
  }

  /** Connect, if it is not: behind the last event that came. A stream that was refused is tried again after a while.
   *  One that has ended is taken up again once a unit was retried with another outcome. */
  open({ succeeded, failed }) {
    if (this.counts && (this.counts.succeeded !== succeeded || this.counts.failed !== failed)) this.ended = false;
    if (this.source || this.ended || document.hidden || Date.now() - this.refusedAt < REFUSED_MILLISECONDS) return;
    this.source = new Events(
      `${address("batches", this.id, "events")}${this.last && `?last_event_id=${encodeURIComponent(this.last)}`}`,
      {
        take: (...event) => this.took(...event),
        refused: () => {
          this.refusedAt = Date.now();
          this.close();
        },
      },
    );
  }

  took(event, data, last) {
    this.last = last || this.last;
    const told = JSON.parse(data);
    if (event === "unit") this.units.set(told.index, told);
    else this.counts = told;
    if (event === "complete") {
      this.ended = true;
      this.close();
    }
    this.visit.changed();
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}
