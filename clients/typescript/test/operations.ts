/**
 * Calls each operation of openapi.yaml once, at the address in the first argument; the process fails if an answer is
 * another one than expected. `POST :travel` lets five seconds pass at the server.
 */
import assert from "node:assert/strict";
import { ApiError, connect, ok, pages, retryAfterSeconds } from "../src/index.js";

const [baseUrl = ""] = process.argv.slice(2);
const client = connect({ baseUrl, retrySeconds: 5 });
const travel = () => fetch(`${baseUrl}:travel`, { method: "POST" });
const paint = { function: "quilt", task: "paint", payload: { row: 0, column: 0 } };

async function refused(answer: Parameters<typeof ok>[0], slug: string, status: number): Promise<void> {
  await assert.rejects(ok(answer), (error) => {
    assert(error instanceof ApiError);
    assert.deepEqual([error.slug, error.status], [slug, status]);
    return true;
  });
}

async function documents(): Promise<void> {
  const ann = { params: { path: { key: "ann" } } };
  await ok(client.PUT("/documents/{key}", { ...ann, body: { name: "Ann", age: 30 } }));
  await ok(client.PATCH("/documents/{key}", { ...ann, body: { age: 31 } }));
  const { data, response } = await client.GET("/documents/{key}", ann);
  assert.equal(data?.["age"], 31);
  const changed = { path: ann.params.path, header: { "If-Match": '"20260131T120000123456"' } };
  await refused(client.PUT("/documents/{key}", { params: changed, body: {} }), "precondition-failed", 412);
  assert(response.headers.get("ETag"));
  for (const n of [1, 2, 3]) await ok(client.POST("/documents", { body: { key: `n-${n}`, n } }));
  const numbers: unknown[] = [];
  const found = pages((page_token) =>
    client.GET("/documents", { params: { query: { where: ["n>=1", "n<9"], order_by: ["-n"], limit: 2, page_token } } }),
  );
  for await (const page of found) {
    assert("documents" in page);
    numbers.push(...page.documents.map((each) => each["n"]));
  }
  assert.deepEqual(numbers, [3, 2, 1]);
  await ok(client.POST("/documents/:query", { body: { where: [["n", "==", 2]] } }));
  await ok(client.GET("/documents/{key}/versions", ann));
  await ok(client.DELETE("/documents/{key}/versions", ann));
  const first = { params: { path: { key: "ann", version: "1" } } };
  const changes = { params: { ...first.params, query: { to: "2" } } };
  await refused(client.GET("/documents/{key}/versions/{version}", first), "not-found", 404);
  await refused(client.GET("/documents/{key}/versions/{version}/changes", changes), "not-found", 404);
  await refused(client.POST("/documents/{key}/versions/{version}/restore", first), "not-found", 404);
  await ok(client.DELETE("/documents/{key}", ann));
  await refused(client.GET("/documents/{key}", ann), "not-found", 404);
}

async function transforms(): Promise<void> {
  const address = { params: { path: { name: "address" } } };
  await ok(client.PUT("/transforms/{name}", { ...address, body: { label: "{{.city}}" } }));
  await ok(client.GET("/transforms/{name}", address));
  await ok(client.GET("/transforms"));
  await ok(client.DELETE("/transforms/{name}", address));
  const begun = await ok(client.POST("/verifications"));
  await travel();
  const run = { params: { path: { run: String(begun?.run) } } };
  assert.equal((await ok(client.GET("/verifications/{run}", run)))?.state, "ended");
  await ok(client.GET("/verifications"));
}

async function semaphores(): Promise<void> {
  const till = { params: { path: { name: "till" } } };
  await ok(client.PUT("/semaphores/{name}", { ...till, body: { permits: 2, lease_seconds: 60 } }));
  await ok(client.PATCH("/semaphores/{name}", { ...till, body: { permits: 1 } }));
  const lease = String((await ok(client.POST("/semaphore-wait/{name}", { ...till, body: {} })))?.lease?.id);
  const { data, response } = await client.POST("/semaphore-wait/{name}", { ...till, body: {} });
  assert(data?.acquired === false && retryAfterSeconds(response) >= 1);
  await ok(client.POST("/semaphore-renew/{name}", { ...till, body: { lease } }));
  await ok(client.POST("/semaphore-wait/{name}", { ...till, body: { id: "w", continuation: paint } }));
  await ok(client.DELETE("/semaphore-wait/{name}/{id}", { params: { path: { name: "till", id: "w" } } }));
  await ok(client.GET("/semaphores", { params: { query: {} } }));
  await ok(client.POST("/semaphore-signal/{name}", { ...till, body: { lease } }));
  const id = String((await ok(client.POST("/semaphore-wait/{name}", { ...till, body: {} })))?.lease?.id);
  await ok(client.GET("/semaphores/{name}", till));
  await ok(client.DELETE("/semaphores/{name}/leases/{id}", { params: { path: { name: "till", id } } }));
  await ok(client.POST("/semaphores/{name}/pause", till));
  await ok(client.POST("/semaphores/{name}/resume", till));
  await ok(client.DELETE("/semaphores/{name}", till));
  await refused(client.POST("/semaphore-wait/{name}", { ...till, body: {} }), "no-semaphore", 404);
  const town = { params: { path: { key: "town" } } };
  await ok(client.POST("/critical-section/{key}", { ...town, body: { continuation: paint, debounce_seconds: 5 } }));
  await ok(client.GET("/critical-section/{key}", town));
}

async function rates(): Promise<void> {
  const mails = { params: { path: { name: "mails" } } };
  await ok(client.PUT("/rates/{name}", { ...mails, body: { per_minute: 1 } }));
  await ok(client.PATCH("/rates/{name}", { ...mails, body: { burst: 2 } }));
  await ok(client.POST("/rates/{name}/acquire", { ...mails, body: { weight: 2 } }));
  await ok(client.POST("/rates/{name}/waits", { ...mails, body: { continuation: paint, id: "w" } }));
  await ok(client.GET("/rates/{name}", mails));
  await ok(client.GET("/rates"));
  await ok(client.DELETE("/rates/{name}/waits/{id}", { params: { path: { name: "mails", id: "w" } } }));
  await ok(client.POST("/rates/{name}/pause", mails));
  await ok(client.POST("/rates/{name}/resume", mails));
  await ok(client.DELETE("/rates/{name}", mails));
}

async function batches(): Promise<void> {
  const batch = { params: { path: { id: "outside" } } };
  await ok(client.POST("/batches", { body: { id: "outside", units: [], sealed: false } }));
  await ok(client.POST("/batches/{id}/units", { ...batch, body: { page: 0, units: [{}, {}] } }));
  await ok(client.POST("/batches/{id}/seal", { ...batch, body: { pages: 1 } }));
  const unit = { params: { path: { id: "outside", index: 0 } } };
  await ok(client.POST("/batch-complete/{id}/{index}", { ...unit, body: { result: 1 } }));
  await ok(client.GET("/batches"));
  await ok(client.GET("/batches/{id}", batch));
  await ok(client.GET("/batches/{id}/units", batch));
  await ok(client.GET("/batches/{id}/results", { ...batch, parseAs: "text" }));
  const large = { params: { path: { ...batch.params.path, index: 0, sha256: "0".repeat(64) } } };
  assert.equal((await client.GET("/batches/{id}/units/{index}/payloads/{sha256}", large)).response.status, 404);
  await ok(client.DELETE("/batches/{id}", batch));
  const seen: string[] = [];
  for await (const { event } of client.events("batches/outside/events")) seen.push(event);
  assert.equal(seen.at(-1), "complete");
  await refused(client.POST("/batches/{id}/retry", { ...batch, body: { units: [1] } }), "nothing-to-run", 409);
}

async function tasks(): Promise<void> {
  await ok(client.POST("/tasks", { body: { ...paint, id: "without-a-unit" } }));
  await refused(client.POST("/tasks", { body: { function: "quilt", task: "pant" } }), "bad-call", 400);
  await travel();
  const { failures = [] } = (await ok(client.GET("/failures"))) as { failures?: { id: string }[] };
  const failure = { params: { path: { id: String(failures[0]?.id) } } };
  await ok(client.GET("/failures/{id}", failure));
  await ok(client.POST("/failures/{id}/retry", failure));
  await ok(client.DELETE("/failures/{id}", failure));
}

async function objects(): Promise<void> {
  const lamp = { function: "shop", class_name: "Stock", key: "lamp" };
  const method = (name: string) => ({ params: { path: { ...lamp, method: name } } });
  const call = "/{function}/objects/{class_name}/{key}/{method}";
  const done = await ok(client.POST(call, { ...method("put"), body: { count: 5 } }));
  assert(done && "result" in done && done.result === 5);
  await refused(client.POST(call, { ...method("reserve"), body: { order: "o", count: 9 } }), "sold-out", 409);
  const posted = { path: { ...lamp, method: "put" }, query: { wait_seconds: 0 }, header: { "Idempotency-Key": "c-1" } };
  await ok(client.POST(call, { params: posted, body: { count: 1 } }));
  const path = { ...lamp, call_id: "c-1" };
  await travel();
  await ok(client.GET("/{function}/objects/{class_name}/{key}/calls/{call_id}", { params: { path } }));
  const undo = { continuation: { function: "shop", task: "undo", payload: { order: "o" } } };
  await ok(client.POST("/{function}/objects/{class_name}/{key}/calls/{call_id}/then", { params: { path }, body: undo }));
  const of = { params: { path: { ...path, method: "show" } }, body: {} };
  await ok(client.POST("/{function}/objects/{class_name}/{key}/calls/{call_id}/object/{method}", of));
  await ok(client.GET("/{function}/objects/{class_name}", { params: { path: lamp } }));
  await ok(client.GET("/{function}/objects/{class_name}/{key}", { params: { path: lamp } }));
  const none = { ...lamp, sha256: "0".repeat(64) };
  const ofState = client.GET("/{function}/objects/{class_name}/{key}/payloads/{sha256}", { params: { path: none } });
  assert.equal((await ofState).response.status, 404);
  const ofCall = { params: { path: { ...path, sha256: none.sha256 } } };
  const large = client.GET("/{function}/objects/{class_name}/{key}/calls/{call_id}/payloads/{sha256}", ofCall);
  assert.equal((await large).response.status, 404);
  await ok(client.DELETE("/{function}/objects/{class_name}/{key}", { params: { path: lamp } }));
}

async function flows(): Promise<void> {
  await ok(client.PUT("/semaphores/{name}", { params: { path: { name: "dock" } }, body: { permits: 2, lease_seconds: 60 } }));
  const cups = { params: { path: { function: "shop", class_name: "Stock", key: "cup", method: "put" } } };
  await ok(client.POST("/{function}/objects/{class_name}/{key}/{method}", { ...cups, body: { count: 100 } }));
  const run = { params: { path: { function: "shop", flow: "checkout", id: "o-7" } } };
  const order = { order: "7", item: "cup", count: 1, amount: 10_000 };
  await ok(client.POST("/{function}/flows/{flow}/{id}", { ...run, body: { arguments: order } }));
  await ok(client.POST("/{function}/flows/{flow}", { params: { path: { function: "shop", flow: "checkout" } }, body: { arguments: order } }));
  await travel();
  const event = { params: { path: { ...run.params.path, name: "approval" } } };
  await ok(client.POST("/{function}/flows/{flow}/{id}/events/{name}", { ...event, body: { value: { approved: true, by: "Ann" } } }));
  await travel();
  assert.equal((await ok(client.GET("/{function}/flows/{flow}/{id}", run)))?.state, "completed");
  await ok(client.GET("/{function}/flows/{flow}/{id}/log", run));
  await ok(client.GET("/{function}/flows/{flow}/{id}/queries", run));
  const none = { params: { path: { ...run.params.path, sha256: "0".repeat(64) } } };
  assert.equal((await client.GET("/{function}/flows/{flow}/{id}/payloads/{sha256}", none)).response.status, 404);
  const receipt = { params: { path: { ...run.params.path, name: "receipt" } } };
  assert.equal((await ok(client.GET("/{function}/flows/{flow}/{id}/queries/{name}", receipt)))?.entries, 4);
  const seen: string[] = [];
  for await (const { event: name } of client.events("shop/flows/checkout/o-7/events")) seen.push(name);
  assert.equal(seen.at(-1), "complete");
  await ok(client.POST("/{function}/flows/{flow}/{id}/fork", { ...run, body: { id: "o-8", from_entry: 1 } }));
  await ok(client.GET("/{function}/flows/{flow}", run));
  await ok(client.POST("/{function}/flows/{flow}/:act", { ...run, body: { action: "resume", state: "stuck" } }));
  await client.POST("/{function}/flows/{flow}/{id}/retry", { ...run, body: { dry_run: true } });
  for (const action of ["cancel", "terminate", "suspend", "resume"] as const)
    await client.POST(`/{function}/flows/{flow}/{id}/${action}`, { ...run, body: { reason: "a test" } });
  await ok(client.DELETE("/{function}/flows/{flow}/{id}", run));
  const other = { ...run.params.path, id: "o-9" };
  const update = { params: { path: { ...other, name: "rename" }, query: { wait_seconds: 0 }, header: { "Idempotency-Key": "u1" } } };
  await ok(client.POST("/{function}/flows/{flow}/{id}/updates/{name}", { ...update, body: { value: "b", start: { arguments: order } } }));
  await ok(client.GET("/{function}/flows/{flow}/{id}/answers/{update}", { params: { path: { ...other, update: "u1" } } }));
  const answer = { params: { path: { ...other, update: "u1", sha256: "0".repeat(64) } } };
  const large = client.GET("/{function}/flows/{flow}/{id}/answers/{update}/payloads/{sha256}", answer);
  assert.equal((await large).response.status, 404);
}

async function standings(): Promise<void> {
  const taste = { params: { path: { kind: "taste" } } };
  await ok(client.PUT("/standings/{kind}", { ...taste, body: { by: ["taste"] } }));
  await ok(client.GET("/standings"));
  const tea = { params: { path: { user: "ann", item: "tea" } } };
  await ok(client.PUT("/yokes/{user}/{item}", { ...tea, body: { value: 5, attributes: { taste: "hot" } } }));
  await travel();
  await ok(client.GET("/yokes/{user}/{item}", tea));
  await ok(client.GET("/yokes", { params: { query: { user: "ann" } } }));
  const item = { params: { path: { kind: "item", id: "tea" } } };
  assert.equal((await ok(client.GET("/standings/{kind}/{id}", item)))?.count, 1);
  await ok(client.GET("/standings/{kind}", taste));
  await ok(client.GET("/standings/{kind}/{id}/rank", item));
  await ok(client.POST("/standings/{kind}/{id}/recount", item));
  await ok(client.POST("/standings"));
  await ok(client.DELETE("/yokes/{user}/{item}", tea));
  await ok(client.DELETE("/yokes", { params: { query: { user: "ann" } } }));
  await travel();
  await ok(client.DELETE("/standings/{kind}", taste));
}

for (const part of [documents, transforms, semaphores, rates, batches, tasks, objects, flows, standings]) await part();
