// Flows: a list of them, the runs of one, and one run with its timeline.

import { address, found, get, now, since } from "./api.js";
import { buttons } from "./actions.js";
import { badge, brief, choices, facts, finder, h, json, lasting, link, moment, pager, served, short, table, value } from "./dom.js";
import { happened, timeline } from "./timeline.js";

export const TITLE = "Flows";
const STATES = ["running", "suspended", "stuck", "completed", "failed", "cancelled"];
const ACTIONS = ["resume", "suspend", "cancel", "terminate"];
const OF_STATE = { running: ["suspend", "cancel", "terminate"], suspended: ["resume", "cancel", "terminate"], completed: ["delete-run"], failed: ["retry", "delete-run"], cancelled: ["delete-run"] }; // what all of them can take
const HOURS = { "1h": 1, "24h": 24, "7d": 168 }; // since when runs were started
const PAGES_MAX = 5; // of a log, read at once

export function show({ about, parts: [function_, flow, ...id], query }) {
  if (!flow) return kinds(about.flows);
  return id.length ? run(function_, flow, id.join("/"), query, about) : runs(function_, flow, query, about);
}

const kinds = (listed) => [
  h("h1", {}, TITLE),
  table(
    "The flows of the catalogue",
    ["flow", "function"],
    listed.map((each) => [link(["flows", each.function, each.flow], each.flow), each.function]),
    "there are none. A function of yours has a flow once its code has one with `@app.flow`.",
  ),
];

async function runs(function_, flow, { state = "", label = "", prefix = "", started = "", order = "", page_token }, about) {
  const path = address(function_, "flows", flow);
  const here = ["flows", function_, flow];
  const byId = Boolean(prefix) || (order === "id" && !HOURS[started]);
  const wanted = { state, label, prefix, started_after: earliest(started), newest_first: byId ? "" : "true" };
  const listed = await get(path, { ...wanted, page_token });
  const filtered = state || label || prefix || HOURS[started];
  const chosen = HOURS[started] ? null : { ...(state && { state }), ...(label && { label }), ...(prefix && { prefix }) };
  return [
    h("h1", {}, `Runs of ${flow}`),
    finder("Id of a run", here),
    finder("Ids that begin with", here, { name: "prefix", value: prefix, kept: { state, label } }),
    finder("Label, as name:value", here, { name: "label", value: label, kept: { state, prefix, started } }),
    choices("State", here, "state", STATES, state, "all", { label, prefix, started }),
    choices("Started within", here, "started", Object.keys(HOURS), started, "any time", { state, label }),
    filtered &&
      listed.flows.length > 0 &&
      buttons(about, OF_STATE[state] ?? ACTIONS, { function: function_, flow }, { path, query: wanted, items: "flows", runs: chosen }),
    table(
      byId ? "By id" : "The newest first",
      [
        HOURS[started] ? "id" : served("id", here, { state, label, prefix, order: "id" }, "ascending", byId),
        "state",
        prefix ? "started" : served("started", here, { state, label, started }, "descending", !byId),
        "ended",
        "took",
        "labels",
      ],
      listed.flows.map((each) => [
        link([...here, each.id]),
        badge(each.state),
        moment(each.created_at),
        moment(each.ended_at),
        lasting((each.ended_at ? Date.parse(each.ended_at) : now()) - Date.parse(each.created_at)),
        labelsOf(each),
      ]),
      filtered ? "none match." : `none. POST ${path} starts one.`,
    ),
    pager(here, { state, label, prefix, started, order, page_token }, listed.next_page_token),
  ];
}

const earliest = (started) => (HOURS[started] ? new Date(now() - HOURS[started] * 3_600_000).toISOString() : "");

const labelsOf = ({ labels = {} }) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}:${value}`)
    .join(", ");

async function run(function_, flow, id, { query = "", update = "" }, about) {
  const path = address(function_, "flows", flow, id);
  const [status, { queries = [] }, answer, reply, log] = await Promise.all([
    get(path),
    get(`${path}/queries`).catch(() => ({})), // its code may not fit the log
    answerOf(path, query),
    replyTo(path, update),
    logOf(`${path}/log`),
  ]);
  const waits = status.waiting_for ?? [];
  const trace = status.trace ?? status.problem?.trace;
  const rows = happened({ ...log, waits, ended_at: status.ended_at });
  const started = rows.length ? Math.min(...rows.map(({ from }) => from)) : null;
  return [
    h("h1", {}, `${status.flow}/${status.id}`),
    facts({
      state: badge(status.state),
      started: started && moment(new Date(started).toISOString()),
      ended: status.ended_at && moment(status.ended_at),
      took: started && lasting((status.ended_at ? Date.parse(status.ended_at) : now()) - started),
      log: `${status.log_length} entries`,
      labels: labelsOf(status),
      deadline: status.ended_at ? null : status.deadline_at && moment(status.deadline_at),
      "updates without an answer": status.unanswered && `${status.unanswered.updates}: ${status.unanswered.names.join(", ")}`,
      progress: status.progress === null ? null : short(status.progress),
      callbacks: status.ended_at ? null : openCallbacks(log.entries).join(", ") || null,
      retried: status.retried && [`${status.retried.times} times, last `, moment(status.retried.at), status.retried.reason && `, ${status.retried.reason}`],
      suspended: status.suspended && [moment(status.suspended.at), status.suspended.reason && `, ${status.suspended.reason}`],
      "forked from": status.forked_from && [
        link(["flows", function_, flow, status.forked_from.id]),
        `, ${status.forked_from.entries} entries`,
      ],
      problem: status.problem && status.problem.detail,
      "holds meanwhile": status.problem?.locks?.length
        ? status.problem.locks.flatMap(({ semaphore, ends_at }, at) => [at ? ", " : "", link(["semaphores", semaphore]), ` ends ${since(ends_at)}`])
        : null,
      error: status.error && (status.error.detail || status.error.title),
      result: status.result === undefined ? null : brief(status.result, path),
    }),
    !status.ended_at && hopeless(status, function_),
    buttons(about, actionsOf(status, log), { function: function_, flow, id }, null, null, fork(status)),
    failedByItself(status, log) && buttons(about, ["retry-from"], { function: function_, flow, id }, null, null, { from_entry: status.log_length }),
    answers(["flows", function_, flow, id], queries, query, answer),
    replies(["flows", function_, flow, id], path, update, reply, status, log),
    trace && [h("h2", {}, "Stack trace"), h("pre", { tabindex: "0" }, trace)],
    h("h2", {}, "Timeline"),
    about.has_traces && h("p", {}, link(["traces"], "Traces of this run", { search: `${flow}/${id}` })),
    timeline(rows, { function: function_, flow, id, path, entries: log.entries, retry: retryFrom(about, status, { function: function_, flow, id }) }),
    log.spans === null &&
      log.entries.length > 0 &&
      h("p", { class: "note" }, "Only the log: the code that is deployed does not fit it, so it cannot say when commands began."),
    log.more && h("p", { class: "note" }, `The first ${log.entries.length} entries of ${status.log_length}.`),
    h("h2", {}, "Arguments"),
    value(log.arguments ?? null, path),
  ];
}

/** Propose a fork: where the run is, or, if it has ended, before the last entry, as nothing is left to do after it. */
const fork = ({ state, id, log_length }) => ({
  id: `${id}-2`,
  from_entry: Math.max(log_length - ["completed", "failed", "cancelled"].includes(state), 0),
});

/** Return the button that retries a run with the entries before one, or nothing for a run that cannot be retried. */
const retryFrom = (about, { state }, values) =>
  ["failed", "stuck"].includes(state) ? (from_entry) => buttons(about, ["retry-from"], values, null, null, { from_entry }) : () => null;

const awaitOf = ({ path }) => Number(path.split(".")[0]);
const resultsOf = ({ entries }) => entries.filter(({ entry }) => entry === "done");

/** Return whether a command of the last await of the run's code has failed, and so runs again by a retry that names no entry. */
const failedLast = (log) => log.more || resultsOf(log).some((one, at, all) => one.error && all.slice(at).every((later) => awaitOf(later) <= awaitOf(one)));

/** Return whether the code has failed and no command: then a retry keeps all entries. A stuck run is resumed instead. */
const failedByItself = ({ state }, log) => state === "failed" && !log.more && !resultsOf(log).some(({ error }) => error);

const actionsOf = ({ ended_at, state }, log) => [
  ...(ended_at ? [] : [...(OF_STATE[state] ?? ACTIONS), "send", "update"]),
  ...(state === "failed" && failedLast(log) ? ["retry"] : []),
  "fork",
  ...(ended_at || state === "stuck" ? ["delete-run"] : []),
];

/** Return the queries that the run answers, and the answer of the chosen one, as of now. */
const answers = (here, queries, chosen, answer) =>
  queries.length > 0 && [
    h("h2", {}, "Queries"),
    choices("Answer of", here, "query", queries, chosen, "none"),
    answer?.problem && h("p", { class: "note" }, answer.problem),
    answer && !answer.problem && json(answer.result),
  ];

/** Return the answer of a query, or why there is none: it may need arguments, or its code may not fit the log. */
const answerOf = (path, query) =>
  query ? get(`${path}/queries/${encodeURIComponent(query)}`).catch(({ body, message }) => ({ problem: body?.detail ?? message })) : null;

/** Return the answer to the chosen update, and a field that chooses one by its id: that of the log, or of its sender. */
const replies = (here, path, chosen, reply, { unanswered }, { entries }) =>
  (chosen || unanswered || entries.some(({ entry }) => entry === "update")) && [
    h("h2", {}, "Updates"),
    finder("Answer to the update", here, { name: "update", value: chosen }),
    reply?.problem && h("p", { class: "note" }, reply.problem),
    reply?.ready === false && h("p", { class: "note" }, "There is no answer yet."),
    reply?.error && facts({ refused: reply.error.detail || reply.error.title }),
    reply?.ready && !reply.error && value(reply.result ?? null, `${path}/answers/${encodeURIComponent(chosen)}`),
  ];

/** Return the answer to an update, or why there is none. */
const replyTo = (path, update) =>
  update ? get(`${path}/answers/${encodeURIComponent(update)}`).catch(({ body, message }) => ({ problem: body?.detail ?? message })) : null;

/** Say why a run that seems to run will not get on by itself. */
function hopeless({ waiting_for = [], unawaited }, function_) {
  const stuck = waiting_for
    .filter((wait) => wait.stuck)
    .map(({ stuck: below }) => [
      "It waits for ",
      link(["flows", function_, below.flow, below.id], `${below.flow}/${below.id}`),
      `, which is stuck: ${below.detail}`,
    ]);
  const misspelt =
    unawaited && waiting_for.some(({ command }) => command.startsWith("event "))
      ? [[`Events came that it does not wait for: ${unawaited.names.join(", ")}. Is a name misspelt?`]]
      : [];
  return [...stuck, ...misspelt].map((said) => h("p", { class: "bad", role: "alert" }, said));
}

/** Return the log of a run, its first pages. It is gone before its run's status is. */
async function logOf(path) {
  let page = await found(path, { spans: "true" });
  const log = { entries: [...(page?.entries ?? [])], spans: page?.spans ?? null, arguments: page?.arguments, more: false };
  for (let read = 1; page?.next_page_token; read++) {
    if (read === PAGES_MAX) return { ...log, more: true };
    page = await get(path, { spans: "true", page_token: page.next_page_token });
    log.entries.push(...page.entries);
    log.spans?.push(...(page.spans ?? []));
  }
  return log;
}

const CALLBACK = "run callback ";

/** Return the events that the run's callbacks may still send: their addresses are secrets, and no page shows them. */
function openCallbacks(entries) {
  const received = entries.filter(({ entry }) => entry === "event").map(({ name }) => name);
  const signed = entries.filter(({ command, error }) => command?.startsWith(CALLBACK) && !error);
  return signed.map(({ command }) => command.slice(CALLBACK.length)).filter((event) => !received.includes(event));
}
