// Firebase's task queue functions against the tasks emulator: node firebase_queue.mjs PACKAGES PORT. A real function of
// firebase-functions receives the tasks at PORT; each line of standard input is a call, and each call prints a line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packages, port] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { initializeApp } = require("firebase-admin/app");
const { getFunctions } = require("firebase-admin/functions");
const { onTaskDispatched } = require("firebase-functions/v2/tasks");
const express = require("express");

const say = (value) => console.log(JSON.stringify(value));
const send = onTaskDispatched({}, (task) => say({ received: task.data, id: task.id, account: task.auth.token.email }));
const app = express().use(express.json());
app.post("/send", send);

initializeApp({ projectId: "demo-project" });
const queue = getFunctions().taskQueue("send");
app.listen(Number(port), "127.0.0.1", async () => {
  say("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [method, ...given] = JSON.parse(line);
    say(await queue[method](...given).then(() => "done", (error) => error.code));
  }
  process.exit();
});
