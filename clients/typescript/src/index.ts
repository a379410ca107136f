/**
 * A client of a Signalbox deployment: `openapi-fetch` with the deployment's types, identity tokens, and retries.
 *
 * A call is sent again after a network error, 429, 502, 503 and 504, with growing random pauses, at least as long as
 * `Retry-After` demands. That is safe: each POST and DELETE has an idempotency key, and every other call may run twice.
 */
import createClient, { type Client as OpenApiClient } from "openapi-fetch";
import { events, type ServerSentEvent } from "./events.js";
import { pause, pauseSeconds } from "./pauses.js";
import type { components, operations, paths } from "./schema.js";

export type { components, operations, paths, ServerSentEvent };

/** A problem as the functions answer it (RFC 9457). */
export interface Problem {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly [field: string]: unknown;
}

/** An unsuccessful answer. `slug` is the last part of the problem's type, such as `bad-key`. */
export class ApiError extends Error {
  readonly slug: string;

  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    const slug = problem.type?.replace("urn:signalbox:problem:", "") ?? "";
    super([`${status} ${slug || (problem.title ?? "")}`.trim(), problem.detail].filter(Boolean).join(": "));
    this.name = "ApiError";
    this.slug = slug;
  }
}

export interface Options {
  /** Where the functions are: `https://REGION-PROJECT.cloudfunctions.net/`, or the local stack, which is the default. */
  readonly baseUrl?: string;
  /** Returns an identity token for an audience, the address of a function. Without it, none is sent. */
  readonly token?: (audience: string) => string | Promise<string>;
  /** How long a call is repeated. 0: never. */
  readonly retrySeconds?: number;
  readonly fetch?: typeof fetch;
}

export type Client = OpenApiClient<paths> & {
  /** The server-sent events of a path, such as `batches/orders/events`, until `complete`. A stream that ends before continues after its last event. */
  events(path: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<ServerSentEvent>;
};

/** Methods of calls that could act twice: an object's deletion is a message to it. */
const KEYED = new Set(["POST", "DELETE"]);
const RETRIED = new Set([429, 502, 503, 504]);
const PAUSE_SECONDS = 0.1;

/** Return a client of a deployment. Its methods are those of openapi-fetch: `client.GET("/documents/{key}", …)`. */
export function connect(options: Options = {}): Client {
  const baseUrl = (options.baseUrl ?? "http://127.0.0.1:8080/").replace(/\/$/, "");
  const send = sender(baseUrl, options);
  const client = createClient<paths>({ baseUrl, fetch: send, querySerializer: { array: { style: "form", explode: true } } });
  return Object.assign(client, {
    events: (path: string, { signal }: { readonly signal?: AbortSignal } = {}) =>
      events(send, `${baseUrl}/${path.replace(/^\//, "")}`, errorOf, signal),
  });
}

/** Return the body of a successful answer. Throws `ApiError` for any other. */
export async function ok<T>(
  answer: Promise<{ readonly data?: T; readonly error?: unknown; readonly response: Response }>,
): Promise<T> {
  const { data, error, response } = await answer;
  if (response.ok) return data as T;
  throw apiError(response.status, error, response.url);
}

const apiError = (status: number, error: unknown, url: string): ApiError =>
  new ApiError(status, isProblem(error) ? error : { detail: status === 404 ? missing(url) : String(error ?? "").slice(0, 300) });

/** Say what a 404 means that is not the API's: no function has this address. */
const missing = (url: string) =>
  `No function is deployed at ${url}. If it is one of the kit's, add its part to \`api\` in the catalogue: api: [documents]`;

/** Return the error of an unsuccessful answer whose body was not read. */
async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    return apiError(response.status, JSON.parse(text), response.url);
  } catch {
    return apiError(response.status, text, response.url);
  }
}

/** Return when an answer asks to try again; 0 if it does not say. A refused acquire of a semaphore or of a rate does. */
export const retryAfterSeconds = (response: Response): number => Number(response.headers.get("Retry-After")) || 0;

/** Yield all pages of a list: `pages((page_token) => client.GET("/documents", { params: { query: { page_token } } }))`. */
export async function* pages<Page extends object>(
  get: (token: string) => Promise<{ readonly data?: Page; readonly error?: unknown; readonly response: Response }>,
): AsyncGenerator<Page> {
  for (let token: string | undefined = ""; token !== undefined; ) {
    const page: Page = await ok(get(token));
    yield page;
    token = ("next_page_token" in page && (page.next_page_token as string)) || undefined;
  }
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sender(baseUrl: string, { token, retrySeconds = 60, fetch: inner = fetch }: Options) {
  return async (request: Request): Promise<Response> => {
    if (KEYED.has(request.method) && !request.headers.has("Idempotency-Key"))
      request.headers.set("Idempotency-Key", crypto.randomUUID());
    if (token) {
      const audience = baseUrl + request.url.slice(baseUrl.length).split(/(?<=[^/])[/?]/, 1)[0];
      request.headers.set("Authorization", `Bearer ${await token(audience)}`);
    }
    const endsAt = Date.now() + retrySeconds * 1000;
    for (let number = 0; ; number++) {
      const [response, failure] = await attempt(inner, request.clone());
      if (response && !RETRIED.has(response.status)) return response;
      const seconds = pauseSeconds(number, PAUSE_SECONDS, response ? retryAfterSeconds(response) : 0);
      if (request.signal.aborted || Date.now() + seconds * 1000 > endsAt) {
        if (response) return response;
        throw failure;
      }
      await response?.body?.cancel();
      await pause(seconds);
    }
  };
}

async function attempt(inner: typeof fetch, request: Request): Promise<[Response, undefined] | [undefined, unknown]> {
  try {
    return [await inner(request), undefined];
  } catch (failure) {
    return [undefined, failure];
  }
}
