/** Two hooks: follow a run of a flow, and follow a document. Copy them into your own project. */
import { useEffect, useState } from "react";
import { ApiError, type Client, type components, ok } from "signalbox-client";

export type Run = components["schemas"]["FlowStatus"];

/** What is known: `undefined` until the first answer. `error` is why there is none. */
export interface Followed<Value> {
  readonly value: Value | undefined;
  readonly error: ApiError | undefined;
}

export interface RunAddress {
  readonly function: string;
  readonly flow: string;
  readonly id: string;
}

/**
 * Follow a run by its stream of events until it has ended: one connection, and no polling. The stream begins with the state of
 * the run, and continues after its last event if the connection breaks.
 */
export function useRun(client: Client, { function: name, flow, id }: RunAddress): Followed<Run> {
  return useFollowed([client, name, flow, id], async (show, signal) => {
    const path = [name, "flows", flow, id, "events"].map(encodeURIComponent).join("/");
    for await (const { event, data } of client.events(path, { signal })) if (event !== "entry") show(data as Run);
  });
}

/**
 * Follow a document. It is asked for every `everySeconds` with the entity tag of what is shown, so that an unchanged one answers 304.
 * `null` is a document that does not exist.
 */
export function useDocument(client: Client, key: string, everySeconds = 2): Followed<Record<string, unknown> | null> {
  return useFollowed([client, key, everySeconds], async (show, signal) => {
    for (let tag = ""; !signal.aborted; await pause(everySeconds, signal)) {
      const headers = tag ? { "If-None-Match": tag } : {};
      const { data, error, response } = await client.GET("/documents/{key}", { params: { path: { key } }, headers, signal });
      if (response.status === 304) continue;
      if (!response.ok && response.status !== 404) throw new ApiError(response.status, error ?? {});
      tag = response.headers.get("ETag") ?? "";
      show(response.ok ? (data as Record<string, unknown>) : null);
    }
  });
}

/** Show what `follow` hands over, until the component is gone or asks for something else. */
function useFollowed<Value>(
  of: readonly unknown[],
  follow: (show: (value: Value) => void, signal: AbortSignal) => Promise<void>,
): Followed<Value> {
  const [followed, setFollowed] = useState<Followed<Value>>(NOTHING);
  useEffect(() => {
    const ending = new AbortController();
    const set = (next: Followed<Value>) => ending.signal.aborted || setFollowed(next);
    set(NOTHING);
    follow((value) => set({ value, error: undefined }), ending.signal).catch((failure: unknown) =>
      setFollowed((before) => (ending.signal.aborted ? before : { ...before, error: asError(failure) })),
    );
    return () => ending.abort();
  }, of);
  return followed;
}

const NOTHING = { value: undefined, error: undefined };

const asError = (failure: unknown): ApiError =>
  failure instanceof ApiError ? failure : new ApiError(0, { title: "There is no answer", detail: String(failure) });

const pause = (seconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resume) => {
    setTimeout(resume, seconds * 1000);
    signal.addEventListener("abort", () => resume(), { once: true });
  });

/** Start a run. The same id a second time starts nothing, so a button that is pressed twice orders once. */
export const start = (client: Client, { function: name, flow, id }: RunAddress, args: Record<string, unknown>) =>
  ok(client.POST("/{function}/flows/{flow}/{id}", { params: { path: { function: name, flow, id } }, body: { arguments: args } }));
