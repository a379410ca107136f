// Calls of the HTTP API, at the address that served this page: reads, and the actions that a person confirms.

const RECONNECT_MILLISECONDS = 3_000;
const KEY = "signalbox-console-key"; // of `signalbox console`, whose program answers those alone who send it

const given = /^#key=([\w-]+)$/.exec(location.hash);
if (given) {
  history.replaceState(null, "", location.pathname);
  // Any site can open this page with a key that it has made up, so only one that the server accepts replaces the stored one.
  const tried = await fetch("/console/about", { cache: "no-store", headers: { "X-Signalbox-Console": given[1] } }).catch(() => {});
  if (tried?.ok) localStorage.setItem(KEY, given[1]); // of this port: no other page reads it
}

/** Return the headers of a read. */
function headers(accept) {
  const key = localStorage.getItem(KEY);
  return { Accept: accept, ...(key && { "X-Signalbox-Console": key }) };
}

let offset = 0; // milliseconds that the server's clock is ahead of this one's

/** A problem as the API answers it (RFC 9457), or why there is no answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.title ?? `Status ${status}`);
    this.status = status;
    this.body = body;
  }
}

/** Return the address of a resource: each part is one segment. */
export const address = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;

/** Return the JSON at an address. Throws `Problem`. */
export async function get(path, query = {}) {
  const asked = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      [value]
        .flat()
        .filter((each) => each !== undefined && each !== "")
        .map((each) => [name, each]),
    ),
  );
  return answered(`${path}${asked.size ? `?${asked}` : ""}`, { headers: headers("application/json") });
}

/** Return the JSON at an address and its entity tag. Throws `Problem`. */
export async function tagged(path) {
  let etag = "";
  const body = await answered(path, { headers: headers("application/json") }, (answer) => (etag = answer.headers.get("ETag")));
  return [body, etag];
}

/** Send an action, with the reason that the person gave, and return the answer's JSON. With an entity tag it is refused if
 *  the resource has changed, and repeats under a key are one. Throws `Problem`. */
export const send = (method, path, body, reason, { etag, key = crypto.randomUUID() } = {}) =>
  answered(path, {
    method,
    headers: {
      ...headers("application/json"),
      ...(etag && { "If-Match": etag }),
      "X-Signalbox-Reason": encodeURIComponent(reason),
      ...(body && { "Content-Type": "application/json" }),
      ...(method === "POST" && { "Idempotency-Key": key }),
    },
    body: body && JSON.stringify(body),
  });

const BEFORE_VALUE = /^\{\s*(?:"[^"\\]*":\s*"(?:[^"\\]|\\.)*",\s*)*"value":\s*/;

/** Return the JSON of the large value at an address as it is sent: parsed here, its large integers would change. Throws `Problem`,
 *  also if the answer is not complete. */
export async function textOfValue(path) {
  const answer = await fetch(path, { cache: "no-store", headers: headers("application/json") }).catch(() => null);
  if (!answer) throw new Problem(0, UNANSWERED);
  const text = await textOf(answer);
  if (!answer.ok) throw new Problem(answer.status, asProblem(text));
  parsed(text, answer);
  const [before] = BEFORE_VALUE.exec(text) ?? [""];
  return before ? text.slice(before.length, text.lastIndexOf("}")) : text;
}

/** Return the text of an answer. Throws `Problem` if the connection breaks before its end. */
const textOf = (answer) =>
  answer.text().catch(() => {
    throw new Problem(answer.status, CUT);
  });

/** Return the value of an answer's text. Throws `Problem`. */
function parsed(text, answer) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem(answer.status, { title: "The answer is not JSON", detail: text.slice(0, 300) });
  }
}

const CUT = { title: "The answer is not complete", detail: "The connection to the server of this page broke." };

const UNANSWERED = { title: "There is no answer", detail: "The server of this page cannot be reached." };

function asProblem(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { title: "The answer is not JSON", detail: text.slice(0, 300) };
  }
}

async function answered(address, options, take = () => {}) {
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", ...options });
  } catch {
    throw new Problem(0, UNANSWERED);
  }
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (date) offset = date + 500 - Date.now(); // the header has whole seconds
  take(answer);
  const text = await textOf(answer);
  if (answer.ok && !text) return null;
  const body = parsed(text, answer);
  if (!answer.ok) throw new Problem(answer.status, body);
  return body;
}

/** Return the same, or null for a 404. */
export const found = (path, query) =>
  get(path, query).catch((problem) => {
    if (problem.status === 404) return null;
    throw problem;
  });

/** Server-sent events at an address. An `EventSource` cannot send the key. It connects again behind the last event when a
 *  connection ends, and ends for good where it is refused. */
export class Events {
  #ending = new AbortController();
  #last = "";
  live = false;

  /** `take` gets each event's type, data and id. */
  constructor(path, { take, refused }) {
    this.#read(path, take)
      .catch(() => {})
      .finally(() => {
        this.live = false;
        if (!this.#ending.signal.aborted) refused();
      });
  }

  close() {
    this.#ending.abort();
  }

  async #read(path, take) {
    while (!this.#ending.signal.aborted) {
      const answer = await this.#connected(path);
      if (answer && !answer.ok) return;
      if (answer) await this.#taken(answer.body, take).catch(() => {});
      this.live = false;
      await new Promise((resume) => setTimeout(resume, RECONNECT_MILLISECONDS));
    }
  }

  #connected(path) {
    const last = this.#last && { "Last-Event-ID": this.#last };
    const options = { cache: "no-store", headers: { ...headers("text/event-stream"), ...last } };
    return fetch(path, { ...options, signal: this.#ending.signal }).catch(() => null);
  }

  async #taken(body, take) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    this.live = true;
    for (let rest = "", read = await reader.read(); !read.done; read = await reader.read()) {
      const events = (rest + read.value).split("\n\n");
      rest = events.pop();
      for (const { event, data, id } of events.map(fields)) {
        this.#last = id ?? this.#last;
        if (data !== undefined && !this.#ending.signal.aborted) take(event, data, this.#last);
      }
    }
  }
}

/** Return the fields of an event: its lines are `name: value`. */
const fields = (event) => Object.fromEntries(event.split("\n").map((line) => line.split(/: ?(.*)/s, 2)));

/** Return the time of the server, in milliseconds. */
export const now = () => Date.now() + (Math.abs(offset) > 1500 ? offset : 0);

/** Return a moment as the time of day here, with its date if that is not today. */
export function clock(moment) {
  if (!moment) return "";
  const at = new Date(moment);
  const today = at.toDateString() === new Date(now()).toDateString();
  const date = { month: "short", day: "numeric", year: "numeric" };
  return `${today ? "" : `${at.toLocaleDateString("en-US", date)}, `}${at.toLocaleTimeString("en-US", { hourCycle: "h23" })}`;
}

/** Return a duration in its largest unit, below a minute with so many digits after the point. */
export function duration(milliseconds, digits = 0) {
  const seconds = Math.max(0, milliseconds) / 1000;
  for (const [unit, size] of [
    ["d", 86_400],
    ["h", 3_600],
    ["min", 60],
  ])
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Number(seconds.toFixed(seconds < 10 ? digits : 0))} s`;
}

/** Return how long ago a moment was, or in how long it will be. */
export function since(moment) {
  if (!moment) return "";
  const passed = now() - Date.parse(moment);
  return passed >= 0 ? `${duration(passed)} ago` : `in ${duration(-passed)}`;
}

/** Return a task of the API as `function.task`, or as the run and the step of the flow for which it waits. */
export const taskName = (task) => {
  if (!task) return "";
  return task.flow ? `${task.flow} step ${task.step}` : `${task.function}.${task.task}`;
};
