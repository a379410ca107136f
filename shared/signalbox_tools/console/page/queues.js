// The queues as they are now: how many tasks wait, for how long, and how many were delivered in the last minute.

import { duration, get } from "./api.js";
import { buttons } from "./actions.js";
import { badge, h, lasting, link, table } from "./dom.js";

const LATE_MILLISECONDS = 60_000; // a task that should have been delivered this long ago

/** Return the queues {name, tasks, running, oldest_seconds, per_minute, state}, or why they cannot be read. */
export const queuesNow = ({ has_queues }) =>
  has_queues ? get("/console/queues").catch((error) => ({ error: error.message, queues: [] })) : { queues: [] };

/** Show the queues. `more` returns further cells of one, below the heads `moreHeads`. */
export const queueTable = ({ queues, error }, about, moreHeads = [], more = () => []) => [
  error && h("p", { class: "note" }, `Not readable: ${error}`),
  table(
    "Tasks of each queue now, and the attempts that ended in the last minute",
    ["queue", "state", "tasks", "in delivery", "oldest due", "a minute", ...moreHeads, "action"],
    queues.map((each) => [
      link(["map", `queue:${each.name}`], each.name),
      badge(each.state),
      each.tasks,
      each.running,
      age(each),
      each.per_minute,
      ...more(each),
      buttons(about, [each.state === "paused" ? "resume-queue" : "pause-queue"], { queue: each.name }) ?? "",
    ]),
    "there are none to read.",
  ),
];

/** Say how long ago the oldest task was due, or when it will be. */
function age({ oldest_seconds: seconds }) {
  if (seconds === null) return "";
  const passed = seconds * 1000;
  if (passed < 0) return lasting(passed, `in ${duration(-passed)}`);
  return lasting(passed, `${duration(passed)} ago`, passed > LATE_MILLISECONDS);
}
