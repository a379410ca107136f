// Semaphores: limits, leases with their holders and ends, waiters in order, and the wait-for graph.

import { address, get, since, taskName } from "./api.js";
import { buttons } from "./actions.js";
import { badge, facts, finder, h, link, moment, pager, table } from "./dom.js";
import { graph } from "./graph.js";

export const TITLE = "Semaphores";
const GRAPH_SEMAPHORES = 12;

export const show = ({ about, parts, query }) => (parts.length ? one(parts[0], about) : all(query, about));

async function all({ prefix = "", page_token, rates_token }, about) {
  const [listed, rates, waiting, waits] = await Promise.all([
    get("/semaphores", { prefix, page_token }),
    get("/rates", { prefix, page_token: rates_token }).catch(() => ({ rates: [] })), // a project may deploy no rates
    get("/semaphores", { waiting: "true" }),
    get("/semaphores", { deadlocks: "true" }),
  ]);
  const first = waiting.semaphores.slice(0, GRAPH_SEMAPHORES);
  const details = await Promise.all(first.map(({ name }) => get(address("semaphores", name)).catch(() => null)));
  return [
    h("h1", {}, TITLE),
    finder("Name of a semaphore", ["semaphores"]),
    finder("Names that begin with", ["semaphores"], { name: "prefix", value: prefix }),
    notice(waits),
    waitFor(details.filter(Boolean), waits.deadlocks, waiting.semaphores.length),
    circles(waits),
    h("h2", {}, "With waiters"),
    table(
      "The first 50 that have waiters",
      ["name", "waiting", "permits", "free", "next lease ends"],
      waiting.semaphores.map((each) => [
        [link(["semaphores", each.name]), paused(each)],
        each.waiting,
        each.permits,
        each.free,
        ends(each),
      ]),
    ),
    h("h2", {}, "All"),
    table(
      "By name",
      ["name", "permits", "free", "lease seconds", "next lease ends"],
      listed.semaphores.map((each) => [
        [link(["semaphores", each.name]), paused(each)],
        each.permits,
        each.free,
        each.lease_seconds,
        ends(each),
      ]),
    ),
    pager(["semaphores"], { prefix, page_token, rates_token }, listed.next_page_token),
    rates.rates.length > 0 && [
      h("h2", {}, "Rates"),
      table(
        "Rates, by name",
        ["name", "description", "per minute", "burst", "free", "waiting", "action"],
        rates.rates.map((each) => [
          [each.name, paused(each)],
          each.description ?? "",
          each.per_minute,
          each.burst,
          each.free,
          each.waiting ?? 0,
          buttons(about, [each.paused_at ? "resume-rate" : "pause-rate"], { name: each.name }) ?? "",
        ]),
      ),
      pager(["semaphores"], { prefix, page_token, rates_token }, rates.next_page_token, "rates_token"),
    ],
  ];
}

/** Return whose a lease or a wait is: a task, or a link to the run that a task posts the result to. */
function owner(task) {
  const [flow, id] = task?.flow ? task.flow.split(/\/(.*)/s, 2) : [];
  return flow ? [link(["flows", task.function.replaceAll("_", "-"), flow, id], task.flow), ` step ${task.step}`] : taskName(task);
}

const paused = ({ paused_at }) => paused_at && [" ", badge("paused")];

const ends = ({ leases }) => moment(leases.map(({ ends_at }) => ends_at).sort()[0]);

/** Say whether there are deadlocks. */
function notice({ deadlocks, complete }) {
  const partly = complete ? "" : " Not all semaphores with waiters were checked.";
  if (!deadlocks.length) return h("p", { class: complete ? "well" : "note" }, `No deadlock.${partly}`);
  return h(
    "p",
    { class: "bad", role: "alert", id: "deadlocks" },
    deadlocks.length === 1 ? "A deadlock" : `${deadlocks.length} deadlocks`,
    `: its holders wait for one another until a lease ends.${partly}`,
  );
}

/** Show the circles of waiting as the API found them. */
const circles = ({ deadlocks }) =>
  deadlocks.map((circle) =>
    table(
      `A circle of ${circle.length}`,
      ["holder", "holds", "waits for", "held by"],
      circle.map((step) => [
        step.holder,
        step.holds.map((held, at) => [
          at ? ", " : "",
          link(["semaphores", held.semaphore]),
          ` ends ${since(held.ends_at)}`,
        ]),
        link(["semaphores", step.waits_for]),
        step.held_by,
      ]),
    ),
  );

/** Draw the wait-for graph; edges of a circle are marked. */
function waitFor(details, deadlocks, count) {
  const inCircle = new Set(
    deadlocks.flat().map(({ holder, waits_for, held_by }) => JSON.stringify([holder, held_by, waits_for])),
  );
  const edges = details.flatMap(({ name, leases, waiters }) =>
    waiters.flatMap((waiter) =>
      leases.map((lease) => {
        const [from, to] = [waiter.holder ?? waiter.id, lease.holder ?? lease.id];
        return { from, to, text: name, marked: inCircle.has(JSON.stringify([from, to, name])) };
      }),
    ),
  );
  if (!edges.length) return null;
  const marked = new Set(deadlocks.flat().map(({ holder }) => holder));
  const ids = [
    ...new Set([...deadlocks.flat().map(({ holder }) => holder), ...edges.flatMap(({ from, to }) => [from, to])]),
  ];
  const nodes = ids.slice(0, 24).map((id) => ({ id, marked: marked.has(id) }));
  const drawn = new Set(nodes.map(({ id }) => id));
  const of = count > GRAPH_SEMAPHORES ? ` Of the first ${GRAPH_SEMAPHORES} semaphores with waiters.` : "";
  return [
    h("h2", {}, "Wait-for graph"),
    h(
      "p",
      { class: "note" },
      `An arrow leads from a waiter to the holder of the semaphore. Deadlocked holders are red.${of}`,
    ),
    graph(
      "Wait-for graph; the tables on this page have the same",
      nodes,
      edges.filter(({ from, to }) => drawn.has(from) && drawn.has(to) && from !== to),
    ),
  ];
}

async function one(name, about) {
  const shown = await get(address("semaphores", name));
  return [
    h("h1", {}, shown.name),
    facts({
      description: shown.description,
      state: shown.paused_at && [badge("paused"), " ", moment(shown.paused_at)],
      permits: shown.permits,
      free: shown.free,
      "lease seconds": shown.lease_seconds,
      "deleted when unused for": shown.delete_after_seconds && `${shown.delete_after_seconds} s`,
    }),
    buttons(about, [shown.paused_at ? "resume-semaphore" : "pause-semaphore"], { name }),
    shown.lanes ? h("h2", {}, "Lanes") : null,
    shown.lanes
      ? table(
          "The keys and priorities that share the permits",
          ["key", "priority", "weight", "share"],
          shown.lanes.map((lane) => [
            lane.shared ? "(several)" : lane.key ?? "",
            lane.priority,
            lane.weight,
            `${Math.round(lane.share * 100)} %`,
          ]),
        )
      : null,
    h("h2", {}, "Leases"),
    table(
      "Live leases",
      ["lease", "holder", "task", "permits", "token", "ends", "action"],
      shown.leases.map((lease) => [
        lease.id,
        lease.holder ?? "",
        owner(lease.task),
        lease.permits,
        String(lease.token),
        moment(lease.ends_at),
        buttons(about, ["end-lease"], { name, id: lease.id }) ?? "",
      ]),
    ),
    h("h2", {}, "Waiters"),
    table(
      shown.lanes ? "The first hundred, by lane, in order" : "The first hundred, in order",
      ["place", "wait", ...(shown.lanes ? ["key", "priority"] : []), "holder", "task", "permits", "since"],
      shown.waiters.map((waiter, at) => [
        at + 1,
        waiter.id,
        ...(shown.lanes ? [waiter.key ?? "", waiter.priority ?? "normal"] : []),
        waiter.holder ?? "",
        owner(waiter.task),
        waiter.permits,
        moment(waiter.since),
      ]),
    ),
  ];
}
