/** Reads server-sent events (WHATWG HTML, section 9.2), also where `EventSource` cannot send a token. */
import { pause, pauseSeconds } from "./pauses.js";

export interface ServerSentEvent {
  readonly event: string;
  /** What continues a stream after this event. Empty if the server gave none. */
  readonly id: string;
  readonly data: unknown;
}

const RECONNECT_SECONDS = 1;

/**
 * Yield the events of a stream until one is `complete`. A stream that breaks or ends before, as the server ends each after some
 * minutes, is opened again after its last event, after a pause: it grows while streams bring nothing. A stream whose events have
 * no ids cannot continue, and ends.
 */
export async function* events(
  send: (request: Request) => Promise<Response>,
  url: string,
  errorOf: (refusal: Response) => Promise<Error>,
  signal?: AbortSignal,
): AsyncGenerator<ServerSentEvent> {
  const at = { id: "" };
  for (let pauses = 0; ; ) {
    const headers = { Accept: "text/event-stream", ...(at.id && { "Last-Event-ID": at.id }) };
    const response = await send(new Request(url, { headers, ...(signal && { signal }) }));
    if (response.status === 204) return;
    if (!response.ok || !response.body) throw await errorOf(response);
    try {
      for await (const event of parsed(response.body, at)) {
        yield event;
        if (event.event === "complete") return;
        pauses = 0;
      }
      if (!at.id) return;
    } catch (failure) {
      if (signal?.aborted || !at.id) throw failure;
    }
    await pause(pauseSeconds(pauses++, RECONNECT_SECONDS));
  }
}

/** Yield the events of a body. `at` is where a new stream continues: behind what an empty line ended, also an id alone. */
async function* parsed(body: ReadableStream<Uint8Array>, at: { id: string }): AsyncGenerator<ServerSentEvent> {
  let [event, id, data] = ["", at.id, [] as string[]];
  for await (const line of lines(body)) {
    const [, name = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (line === "") {
      at.id = id;
      if (data.length) yield { event: event || "message", id, data: JSON.parse(data.join("\n")) };
      [event, data] = ["", []];
    }
  }
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const [reader, decoder] = [body.getReader(), new TextDecoder()];
  let rest = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const found = (rest + decoder.decode(part.value, { stream: true })).split("\n");
      rest = found.pop() ?? "";
      yield* found;
    }
  } finally {
    await reader.cancel();
  }
}
