/** Reads streams that the server ends or that break, without a server; the process fails if one is read in another way. */
import assert from "node:assert/strict";
import { ApiError, connect } from "../src/index.js";

const paused: number[] = [];
globalThis.setTimeout = ((resume: () => void, milliseconds: number) => {
  paused.push(milliseconds);
  queueMicrotask(resume);
}) as unknown as typeof setTimeout;
Math.random = () => 0.5;

const unit = (id: number) => `event: unit\nid: ${id}\ndata: ${id}\n\n`;
const complete = "event: complete\nid: 9\ndata: {}\n\n";

function body(text: string, breaks: boolean): ReadableStream<Uint8Array> {
  const parts = [new TextEncoder().encode(text)];
  return new ReadableStream({
    pull: (stream) => {
      const part = parts.shift();
      if (part) stream.enqueue(part);
      else if (breaks) stream.error(new Error("cut"));
      else stream.close();
    },
  });
}

/** Read streams with these texts, one after the other. Return the events' ids, where each stream began, and the pauses. */
async function read(texts: string[], { breaks = false } = {}) {
  const begun: (string | null)[] = [];
  paused.length = 0;
  const send = async (request: RequestInfo | URL) => {
    begun.push((request as Request).headers.get("Last-Event-ID"));
    const text = texts.shift();
    return text === undefined ? new Response(null, { status: 204 }) : new Response(body(text, breaks && texts.length > 0));
  };
  const ids: string[] = [];
  for await (const { id } of connect({ fetch: send }).events("batches/b/events")) ids.push(id);
  return { ids, begun, paused: [...paused] };
}

for (const breaks of [false, true]) {
  assert.deepEqual(await read([unit(1), unit(2), complete], { breaks }), {
    ids: ["1", "2", "9"],
    begun: [null, "1", "2"],
    paused: [500, 500],
  });
  // what brings nothing is opened after growing pauses, and an id alone is a place to continue
  assert.deepEqual(await read(["retry: 1000\n\nid: 7\n\n", "", "", complete], { breaks }), {
    ids: ["9"],
    begun: [null, "7", "7", "7"],
    paused: [500, 1000, 2000],
  });
  // an event that was cut before its end comes again
  assert.deepEqual((await read([`${unit(1)}event: unit\nid: 2\ndata: 2\n`, unit(2), complete], { breaks })).begun, [null, "1", "2"]);
}
// the run or the batch has ended, and there is nothing more
assert.deepEqual(await read([complete]), { ids: ["9"], begun: [null], paused: [] });
assert.deepEqual(await read([unit(1)]), { ids: ["1"], begun: [null, "1"], paused: [500] });
// without ids it cannot continue
assert.deepEqual(await read(["data: 1\n\n"]), { ids: [""], begun: [null], paused: [] });
// a refusal is an `ApiError`, as with any other call; another page than the API's is its detail
for (const [status, text, slug, detail] of [
  [404, '{"type":"urn:signalbox:problem:not-found","title":"Not found","detail":"no b"}', "not-found", "no b"],
  [500, "<html>oh no</html>", "", "<html>oh no</html>"],
] as const)
  await assert.rejects(
    connect({ fetch: async () => new Response(text, { status }) }).events("batches/b/events").next(),
    (error) => error instanceof ApiError && error.status === status && error.slug === slug && error.problem.detail === detail,
  );
