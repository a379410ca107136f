// Failures: the tasks that were given up, with the reason, and those that are being retried.

import { address, get, taskName } from "./api.js";
import { buttons } from "./actions.js";
import { badge, choices, facts, finder, h, json, link, moment, pager, short, table } from "./dom.js";

export const TITLE = "Failures";
const STATES = ["failed", "retrying"];
const ACTIONS = ["retry-failure", "delete-failure"];

export const show = ({ about, parts, query }) => (parts.length ? one(parts[0], about) : all(query, about));

async function all({ state = "", page_token }, about) {
  const listed = await get("/failures", { state, page_token });
  return [
    h("h1", {}, TITLE),
    finder("Id of a failure", ["failures"]),
    choices("State", ["failures"], "state", STATES, state),
    state === "failed" && listed.failures.length > 0 && buttons(about, ACTIONS, {}, { path: "/failures", query: { state }, items: "failures" }),
    table(
      "The newest first",
      ["failed", "task", "state", "problem", "reason", "attempts"],
      listed.failures.map((each) => [
        link(["failures", each.id], moment(each.failed_at)),
        taskName(each),
        badge(each.state),
        each.problem ?? "",
        short(each.detail || each.error, 200),
        each.attempts,
      ]),
      state ? "none match." : "none. A task that is given up appears here.",
    ),
    pager(["failures"], { state, page_token }, listed.next_page_token),
  ];
}

async function one(id, about) {
  const { project } = about;
  const shown = await get(address("failures", id));
  return [
    h("h1", {}, taskName(shown)),
    facts({
      state: badge(shown.state),
      problem: shown.problem,
      detail: shown.detail,
      error: shown.error,
      attempts: shown.attempts,
      "failed at": moment(shown.failed_at),
      next: shown.next_at && moment(shown.next_at),
      queue: shown.queue,
      semaphore: shown.semaphore && link(["semaphores", shown.semaphore]),
      batch: shown.batch && link(["batches", shown.batch]),
      trace: shown.trace && (about.has_traces ? link(["traces", shown.trace.split("-")[1]], shown.trace) : shown.trace),
      id: shown.id,
    }),
    shown.state === "failed" && buttons(about, ACTIONS, { id }),
    project &&
      h("p", { class: "note" }, "The trace is the one under which Cloud Logging and Cloud Trace have the call."),
    h("h2", {}, "Payload"),
    json(shown.payload ?? null),
    shown.traceback && [h("h2", {}, "Traceback"), h("pre", { tabindex: "0" }, shown.traceback)],
  ];
}
