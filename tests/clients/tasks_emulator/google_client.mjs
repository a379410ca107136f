// Google's client, unchanged, against the tasks emulator: node google_client.mjs PACKAGES grpc|rest PORT REST_PORT WORKER.
// Prints what it got, as JSON.
import { createRequire } from "node:module";

const [packages, kind, port, restPort, worker] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { CloudTasksClient } = require("@google-cloud/tasks");
const { PassThroughClient } = require("google-auth-library");
const grpc = require("@grpc/grpc-js");

const client = new CloudTasksClient(
  kind === "grpc"
    ? { apiEndpoint: "127.0.0.1", port: Number(port), sslCreds: grpc.credentials.createInsecure(), projectId: "demo-project" }
    : {
        apiEndpoint: "127.0.0.1", port: Number(restPort), protocol: "http", fallback: true, projectId: "demo-project",
        authClient: new PassThroughClient(),
      },
);
const parent = client.locationPath("demo-project", "us-central1");
const name = client.queuePath("demo-project", "us-central1", `node-${kind}`);
const seconds = (later) => ({ seconds: Math.floor(Date.now() / 1000) + later });
const names = (tasks) => tasks.map((task) => task.name.split("/").pop()).sort();
const refusal = async (call) => {
  try {
    await call;
    return null;
  } catch (error) {
    return error.message;
  }
};
const got = {};

const [created] = await client.createQueue({ parent, queue: { name, retryConfig: { maxAttempts: 3 } } });
got.created = [created.rateLimits.maxDispatchesPerSecond, created.retryConfig.maxAttempts];
const [updated] = await client.updateQueue({
  queue: { name, rateLimits: { maxDispatchesPerSecond: 5 } },
  updateMask: { paths: ["rate_limits.max_dispatches_per_second"] },
});
got.updated = [updated.rateLimits.maxDispatchesPerSecond, updated.retryConfig.maxAttempts];
got.listed = (await client.listQueues({ parent }))[0].some((queue) => queue.name === name);
got.paused = (await client.pauseQueue({ name }))[0].state;

const body = Buffer.from("hello").toString("base64");
const oidcToken = { serviceAccountEmail: "caller@demo-project.iam.gserviceaccount.com", audience: "https://worker" };
const httpRequest = { url: `${worker}/${kind}/200`, headers: { "content-type": "text/plain" }, body, oidcToken };
const create = (task, more = {}) => client.createTask({ parent: name, task: { httpRequest, ...task }, ...more });
await create({ name: `${name}/tasks/now` });
await create({ name: `${name}/tasks/later`, scheduleTime: seconds(3600) });
await create({ name: `${name}/tasks/deleted`, scheduleTime: seconds(3600) });
got.twice = await refusal(create({ name: `${name}/tasks/now` }));
got.tasks = names((await client.listTasks({ parent: name }))[0]);
got.pages = [];
for await (const task of client.listTasksAsync({ parent: name, pageSize: 1, responseView: "FULL" })) {
  got.pages.push(Buffer.from(task.httpRequest.body).toString());
}
const [full] = await client.getTask({ name: `${name}/tasks/later`, responseView: "FULL" });
got.due_in = Number(full.scheduleTime.seconds) - Number(full.createTime.seconds);
await client.deleteTask({ name: `${name}/tasks/deleted` });
got.gone = await refusal(client.getTask({ name: `${name}/tasks/deleted` }));
await client.runTask({ name: `${name}/tasks/later` });
got.resumed = (await client.resumeQueue({ name }))[0].state;
await client.pauseQueue({ name });
await create({ scheduleTime: seconds(3600) });
got.purged = Number((await client.purgeQueue({ name }))[0].purgeTime.seconds) > 0;
got.left = names((await client.listTasks({ parent: name }))[0]).length;
got.policy = await refusal(client.getIamPolicy({ resource: name }));
console.log(JSON.stringify(got));
process.exit();
