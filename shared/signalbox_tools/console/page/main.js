// Which page is shown, and when it is read again: while it is visible, until it has not been used for a stated time.

import { clock, get, Problem, textOfValue } from "./api.js";
import { h, morph, place, skeleton, sortable } from "./dom.js";
import { act, ask } from "./actions.js";
import * as batches from "./batches.js";
import * as documents from "./documents.js";
import * as failures from "./failures.js";
import * as map from "./map.js";
import * as flows from "./flows.js";
import * as objects from "./objects.js";
import * as overview from "./overview.js";
import * as semaphores from "./semaphores.js";
import * as standings from "./standings.js";
import * as traces from "./traces.js";

const PAGES = { overview, semaphores, batches, documents, objects, flows, standings, failures, traces, map };
const FIRST = "overview";
/** The functions that pages read. Without it, a page is not in the navigation. */
const READ = ["semaphores", "batches", "documents", "standings", "failures"];
const PAUSE_MINUTES = 10;
const SKELETON_MILLISECONDS = 150; // what is read sooner is shown without one
const RELAYED =
  "Read-only: a program on your machine passes this page's GETs on to the deployed functions, as your gcloud account, " +
  "and nothing but GETs.";
const ACTING =
  "A program on your machine passes this page's GETs, and the actions that you confirm, on to the deployed functions, " +
  "as your gcloud account.";

const content = document.getElementById("content");
const about = await get("/console/about").catch((error) => {
  content.replaceChildren(problem(error));
  throw error;
});
let shown = { hash: null, leave: () => {} };
let turn = 0;
let timer = 0;
let usedAt = Date.now();
let entries = 0;

/** Return the page that the address names: its module, its parts, and its query. */
function current() {
  const [path, asked = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/").filter(Boolean).map(decoded);
  const known = Object.hasOwn(PAGES, name ?? "") ? name : FIRST;
  return { name: known, parts, query: Object.fromEntries(new URLSearchParams(asked)) };
}

/** Return a segment of an address as text, or as it is if it is not encoded as one. */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Read the page again and show it; `moved` says that it is another one than before. */
async function show({ moved = false } = {}) {
  const mine = ++turn;
  clearTimeout(timer);
  const { name, parts, query } = current();
  const visit = moved || !shown.visit ? entered() : shown.visit;
  if (moved) waiting(name);
  let fresh;
  try {
    fresh = await PAGES[name].show({ about, parts, query, visit });
  } catch (error) {
    fresh = [h("h1", {}, parts.at(-1) ?? PAGES[name].TITLE), problem(error)];
  }
  if (mine !== turn) return;
  const refused = visit.state.refused && problem(visit.state.refused);
  const next = h("main", { id: "content", tabindex: "-1" }, fresh, refused);
  sortable(next, [name, ...parts], query);
  draw(next, moved, [...(parts.length ? [parts.at(-1)] : []), PAGES[name].TITLE]);
  navigation(name);
  later(about.refresh_seconds * (about.project ? (PAGES[name].SLOWER ?? 1) : 1));
}

let pending = 0;

/** Name the page that is being read, and show grey lines in its place, if it is not read at once. */
function waiting(name) {
  navigation(name);
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  clearTimeout(pending);
  pending = setTimeout(() => {
    content.setAttribute("aria-busy", "true");
    content.replaceChildren(...skeleton());
  }, SKELETON_MILLISECONDS);
}

/** Return what a page keeps while it is shown: `changed()` draws it again, `leave` is called at its end. */
function entered() {
  shown.leave();
  const visit = {
    state: {},
    changed: () => soon(visit),
    onLeave: (leave) => {
      shown.leave = leave;
    },
  };
  shown = { visit, leave: () => {} };
  return visit;
}

let drawing = 0;

/** Show the page again soon: many changes at once are drawn once. */
function soon(visit) {
  drawing ||= setTimeout(() => {
    drawing = 0;
    if (shown.visit === visit) show();
  }, 200);
}

function draw(next, moved, titles) {
  document.title = [...titles, "Signalbox console"].join(" · ");
  clearTimeout(pending);
  if (!moved) return morph(content, next);
  content.removeAttribute("aria-busy");
  content.replaceChildren(...next.childNodes);
  if (entries++) content.focus({ preventScroll: true }); // not where the keyboard is at first: before the links
  scrollTo(0, 0);
}

function problem(error) {
  if (!(error instanceof Problem)) throw error;
  const { title, detail, ...more } = error.body;
  const others = Object.entries(more).map(
    ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, title ?? `Status ${error.status}`),
    detail && h("p", {}, detail),
    h("p", { class: "note" }, others.join(", ")),
  );
}

/** Save a large value as a file. The link alone cannot load it: the key of `signalbox console` is a header. */
async function save(link, visit) {
  visit.state.refused = null;
  try {
    const url = URL.createObjectURL(new Blob([await textOfValue(link.getAttribute("href"))], { type: "application/json" }));
    h("a", { href: url, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it meanwhile
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    visit.state.refused = error;
  }
  visit.changed();
}

/** Return an address without the order of its tables, which makes no other page of it. */
function unsorted(address) {
  const [path, asked = ""] = new URL(address).hash.split("?");
  const query = new URLSearchParams(asked);
  query.delete("sort");
  return `${path}?${query}`;
}

/** Return whether a page shows anything of the deployment. */
function isServed(name) {
  if (name === "objects" || name === "flows") return about[name].length > 0;
  return !READ.includes(name) || about.called.includes(name);
}

function navigation(name) {
  const links = Object.entries(PAGES).filter(([each]) => isServed(each)).map(([each, { TITLE }]) =>
    h("a", { href: place([each]), "aria-current": each === name ? "page" : null }, TITLE),
  );
  morph(document.querySelector("nav"), h("nav", { "aria-label": "Pages" }, links));
}

/** Plan the next reading, and say in the foot when it is. */
function later(seconds) {
  const endsAt = usedAt + PAUSE_MINUTES * 60_000;
  const paused = Date.now() >= endsAt;
  document.getElementById("refreshed").textContent =
    `Read at ${clock(Date.now())}. Read again every ${seconds} s ` +
    `while this page is visible, until ${PAUSE_MINUTES} minutes after its last use.`;
  document.getElementById("paused").textContent = paused ? "Paused." : "";
  document.getElementById("resume").hidden = !paused;
  if (!paused && !document.hidden) timer = setTimeout(show, seconds * 1000);
}

function used() {
  const paused = !document.getElementById("resume").hidden;
  usedAt = Date.now();
  if (paused) show();
}

/** Move the focus to the next row or to the one before: to a row's first link or button, or to a row that opens. */
function step(by) {
  const rows = [...content.querySelectorAll("tbody tr, .span")].map((row) => row.querySelector("a, button, summary")).filter(Boolean);
  const at = rows.findIndex((each) => each === document.activeElement || each.closest("tr")?.contains(document.activeElement));
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

const KEYS = {
  "/": () => content.querySelector("input")?.focus(),
  "j": () => step(1),
  "k": () => step(-1),
  "?": () => document.getElementById("keys").showModal(),
};

function pressed(event) {
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  if (modified || !Object.hasOwn(KEYS, event.key) || event.target.closest("input, textarea, dialog")) return;
  event.preventDefault(); // the field would have the slash
  KEYS[event.key]();
}

function submitted(event) {
  if (event.target.closest("#keys")) return; // which closes
  event.preventDefault();
  if ("act" in event.target.dataset) return act(event.target);
  if (event.target.dataset.do) return shown.visit.act();
  const parts = JSON.parse(event.target.dataset.to);
  const { part, ...query } = Object.fromEntries(new FormData(event.target));
  location.hash = place(part ? [...parts, part] : parts, { ...JSON.parse(event.target.dataset.kept), ...query });
}

document.getElementById("where").textContent = about.where;
if (about.project) document.getElementById("rights").textContent = Object.keys(about.actions).length ? ACTING : RELAYED;
document.addEventListener("submit", submitted);
document.addEventListener("click", (event) => {
  const { target } = event;
  if (target.dataset?.action) ask(target, about, () => show());
  if (target.dataset?.download === undefined) return;
  event.preventDefault();
  save(target, shown.visit);
});
document.addEventListener("visibilitychange", () => show());
document.addEventListener("keydown", pressed);
for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, used);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page
  content.focus();
});
addEventListener("hashchange", ({ oldURL, newURL }) => {
  usedAt = Date.now();
  const [from, to] = [oldURL, newURL].map(unsorted);
  show({ moved: from !== to });
});
await show({ moved: true });
