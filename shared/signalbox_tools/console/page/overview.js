// Overview: first the problems, then running and waiting work. Each line links to its page.

import { address, get, Problem, taskName } from "./api.js";
import { alarm, h, link, svg, table } from "./dom.js";
import { queuesNow, queueTable } from "./queues.js";

export const TITLE = "Overview";
export const SLOWER = 6; // times the pause between two readings of a deployment: it reads many lists
const RUNNING = ["open", "sealed"];
const FLOWS_MAX = 10;
const NAMED_MAX = 3;
const RATE_PAGES_MAX = 5;

export async function show({ about, visit }) {
  const [queues, rows, minutes] = await Promise.all([
    queuesNow(about),
    Promise.all(counts(about)),
    about.has_minutes ? get("/console/minutes").catch((error) => ({ error: error.message, functions: [] })) : null,
  ]);
  return [
    h("h1", {}, TITLE),
    cards(
      "Needs attention",
      rows.filter(({ bad }) => bad),
      "nothing has failed, is stuck or deadlocked.",
    ),
    cards(
      "Runs and waits",
      rows.filter(({ bad }) => !bad),
      "nothing. Call a function, and it appears here.",
    ),
    minutes && plots(minutes, about),
    h("h2", {}, "Queues"),
    queueTable(queues, about),
    about.has_status && asked(visit),
  ];
}

/** Show the requests of the last hour: a row with a plot for each function. */
function plots({ functions, error }, { has_traces }) {
  const most = Math.max(...functions.flatMap(({ requests }) => requests));
  return [
    h("h2", {}, "Requests"),
    error && h("p", { class: "note" }, `Not readable: ${error}`),
    table(
      "In each minute of the last hour; failed ones, with a status of 500 or more, are red",
      ["function", "requests", "failed", `up to ${most.toLocaleString("en")} a minute`],
      functions.map(({ function: name, requests, failed }) => [
        has_traces ? link(["traces"], name, { search: name }) : name,
        sum(requests),
        alarm(sum(failed)),
        plot(requests, failed, most),
      ]),
      "none.",
    ),
  ];
}

const sum = (counts) => counts.reduce((total, count) => total + count, 0);

function plot(requests, failed, most) {
  const [width, height] = [4, 28];
  const bars = (counts, kind) =>
    counts.map((count, at) => {
      const high = count && Math.max(1, (count / most) * height);
      return high && svg("rect", { class: kind, x: at * width, width: width - 1, y: height - high, height: high });
    });
  return svg(
    "svg",
    { class: "plot", viewBox: `0 0 ${requests.length * width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${requests.at(-1)} in this minute` },
    bars(requests, "done").filter(Boolean),
    bars(failed, "failed").filter(Boolean),
  );
}

/** Show what there is of the rows, each as a card: a link to its list with the number, and its first items. */
function cards(caption, rows, empty) {
  const present = rows.filter(({ count }) => count !== "0");
  const list = present.map(({ text, parts, query, count, bad, items }) =>
    h(
      "li",
      { class: bad ? "card bad" : "card" },
      h("p", {}, h("strong", { class: /^\d/.test(count) ? "count" : null }, count), link(parts, text, query)),
      items.length > 0 && h("ul", {}, items.map((item) => h("li", {}, item))),
    ),
  );
  return [
    h("h2", {}, caption),
    list.length ? h("ul", { class: "cards" }, list) : h("p", { class: "empty" }, `${empty[0].toUpperCase()}${empty.slice(1)}`),
  ];
}

/** Return the rates that are paused, of the first pages of all: an API list of them alone does not exist. */
async function pausedRates() {
  const found = [];
  let page = {};
  for (let pages = 0; pages < RATE_PAGES_MAX && (!pages || page.next_page_token); pages++) {
    page = await get("/rates", { page_token: page.next_page_token }).catch(() => ({ rates: [] })); // a project may deploy no rates
    found.push(...page.rates);
  }
  const [paused, more] = [found.filter(({ paused_at }) => paused_at), page.next_page_token];
  const items = paused.slice(0, NAMED_MAX).map(({ name, waiting = 0 }) => `${name} ${waiting.toLocaleString("en")} waiting`);
  return {
    text: "Rates, paused",
    parts: ["semaphores"],
    count: `${paused.length}${more ? "+" : ""}`,
    items: more ? [...items, `and more: these are of the first ${found.length.toLocaleString("en")} rates`] : items,
  };
}

const status = ({ name, text, well }) => [name, h("span", { class: well ? null : "bad" }, text)];

/** Return how many there are of each, as far as one page of its list has them, and the first of them. */
function counts(about) {
  const of = (text, parts, path, name, query = {}, bad = false, item = ({ id }) => link([...parts, id], id)) =>
    counted(path, query, name).then(({ count, first }) => ({ text, parts, query, count, bad, items: first.map(item) }));
  const failure = (each) => link(["failures", each.id], `${taskName(each)}: ${each.detail || each.error || ""}`);
  const semaphore = ({ name, waiting, paused_at }) => [
    link(["semaphores", name]),
    ` ${waiting.toLocaleString("en")} waiting${paused_at ? ", paused" : ""}`,
  ];
  const circle = (steps) => steps.map(({ holder }) => holder).join(" → ");
  const called = (name, rows) => (about.called.includes(name) ? rows() : []);
  return [
    ...called("failures", () => [
      of("Failures", ["failures"], "/failures", "failures", { state: "failed" }, true, failure),
      of("Tasks that are retried", ["failures"], "/failures", "failures", { state: "retrying" }, false, failure),
    ]),
    ...called("semaphores", () => [
      of("Semaphores with waiters", ["semaphores"], "/semaphores", "semaphores", { waiting: "true" }, false, semaphore),
      of("Deadlocks", ["semaphores"], "/semaphores", "deadlocks", { deadlocks: "true" }, true, circle),
    ]),
    ...called("rates", () => [pausedRates()]),
    ...called("batches", () => RUNNING.map((state) => of(`Batches, ${state}`, ["batches"], "/batches", "batches", { state }))),
    ...about.flows
      .slice(0, FLOWS_MAX)
      .flatMap(({ function: function_, flow }) =>
        ["running", "suspended", "stuck", "failed"].map((state) =>
          of(
            `Flows ${flow}, ${state}`,
            ["flows", function_, flow],
            address(function_, "flows", flow),
            "flows",
            { state },
            state === "stuck" || state === "failed",
          ),
        ),
      ),
  ];
}

/** Return a count as text, and the first of what was counted; where a list has more than one page it is the least that
 *  there are. */
async function counted(path, query, name) {
  try {
    const page = await get(path, query);
    const more = page.next_page_token || page.complete === false ? "+" : "";
    return { count: `${page[name].length}${more}`, first: page[name].slice(0, NAMED_MAX) };
  } catch (error) {
    if (error instanceof Problem) return { count: `not readable: ${error.message}`, first: [] };
    throw error;
  }
}

/** Return what gcloud says of a deployment, once it was asked for: that takes a few seconds, so it is not read again by itself. */
function asked(visit) {
  const { gcloud } = visit.state;
  const again = h(
    "form",
    { "data-do": "status" },
    h("button", {}, gcloud ? "Ask gcloud again" : "Ask gcloud (a few seconds)"),
  );
  visit.act = async () => {
    visit.state.gcloud = { lines: [{ name: "gcloud", text: "is being asked …", well: true }] };
    visit.changed();
    visit.state.gcloud = await get("/console/status").catch((error) => ({
      lines: [{ name: "gcloud", text: error.message, well: false }],
    }));
    visit.changed();
  };
  return [again, gcloud && table("As signalbox status shows it", ["what", "state"], gcloud.lines.map(status))];
}
