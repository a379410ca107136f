// Elements of the page. What the API returns is text here: a value becomes a text node or an attribute, never markup,
// and links lead to places of this page, or download a large value of the API.

import { clock, duration, since } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children; a child that is not a node is text, and one that is null is left out. */
export const h = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

/** Return an element of SVG. */
export const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : document.createTextNode(child));
  return element;
}

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "13px system-ui, sans-serif"; // that of `svg text`

/** Return the width of a text of a drawing. */
export const widthOf = (text) => ruler.measureText(text).width;

/** Return a text of a drawing as it fits into `width`. The middle of a wider one is left out: the ends tell names such as
 *  those of runs apart. */
export function fitted(text, width) {
  const letters = [...text];
  const cut = (kept) => `${letters.slice(0, kept >> 1).join("")}…${letters.slice(letters.length - kept + (kept >> 1)).join("")}`;
  const fits = (shown) => widthOf(shown) <= width;
  if (fits(text)) return text;
  let [fitting, tooMany] = [0, letters.length];
  while (tooMany - fitting > 1) {
    const kept = (fitting + tooMany) >> 1;
    [fitting, tooMany] = fits(cut(kept)) ? [kept, tooMany] : [fitting, kept];
  }
  return cut(fitting);
}

/** Return the place of this page that has these parts: `#/semaphores/NAME?page_token=…`. */
export function place(parts, query = {}) {
  const asked = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== undefined && value !== ""),
  ).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${asked && `?${asked}`}`;
}

/** Return a link to a place of this page; the last part is its text, if there is no other. */
export const link = (parts, text = parts.at(-1), query = {}) => h("a", { href: place(parts, query) }, text);

/** Return a table; a row is an array of cells, or {class, cells}. Without rows it is the sentence `empty`. */
export function table(caption, heads, rows, empty = "none.") {
  if (!rows.length) return h("p", { class: "empty" }, h("strong", {}, caption), `: ${empty}`);
  const counted = heads.map((_, at) => {
    const filled = rows.map((row) => (row.cells ?? row)[at]).filter((value) => value !== "");
    return filled.length > 0 && filled.every(isNumber);
  });
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each, at) => h("th", { scope: "col", class: counted[at] && "number" }, each)),
    ),
  );
  const body = h(
    "tbody",
    {},
    rows.map((row) => h("tr", { class: row.class }, (row.cells ?? row).map(cell))),
  );
  const whole = h("table", {}, h("caption", {}, caption), head, body);
  const reached = whole.querySelector("a, button"); // with the keyboard; an element with neither is scrolled by itself
  return h("div", { class: "scroll", ...(!reached && { tabindex: "0", role: "region", "aria-label": caption }) }, whole);
}

const isNumber = (value) => typeof value === "number" || value?.nodeName === "DATA";

const cell = (value) =>
  h(
    "td",
    { class: isNumber(value) && "number" },
    typeof value === "number" ? value.toLocaleString("en") : value,
  );

/** Return a list of names with their values; names without a value are left out. */
export const facts = (pairs) =>
  h(
    "dl",
    {},
    Object.entries(pairs)
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );

/** Return a form with one field, which leads to the place that it names; `name` puts it into the query instead, next to
 *  what is `kept` of it. */
export function finder(label, parts, { name = "", value = "", kept = {} } = {}) {
  const field = h("input", { name: name || "part", value, size: 32, autocomplete: "off", spellcheck: "false" });
  return h("form", { "data-to": JSON.stringify(parts), "data-kept": JSON.stringify(kept) }, h("label", {}, `${label} `, field), h("button", {}, "Show"));
}

/** Return links that choose a value of a query's parameter, as of a state; `none` is what it is called without one, and
 *  `kept` are the other parameters. */
export const choices = (label, parts, name, values, chosen, none = "all", kept = {}) =>
  h(
    "p",
    { class: "choices" },
    `${label}: `,
    ["", ...values].map((value) => [
      " ",
      value === chosen
        ? h("strong", { "aria-current": "true" }, value || none)
        : link(parts, value || none, { ...kept, [name]: value }),
    ]),
  );

/** Return links to the first and the next page of a list that has several. The query has the token of the shown one. */
export const pager = (parts, query, token, name = "page_token") =>
  (token || query[name]) &&
  h(
    "p",
    { class: "pages" },
    query[name] && [h("a", { href: place(parts, { ...query, [name]: "" }), rel: "first" }, "First page"), " "],
    token && h("a", { href: place(parts, { ...query, [name]: token }), rel: "next" }, "Next page"),
  );

/** Return the head of a column by which the API can sort a list: a link to the list in that order. */
export const served = (name, parts, query, direction, isChosen) =>
  h("a", { href: place(parts, query), "data-served": isChosen ? direction : "none" }, name);

/** Return a moment as its time and how long ago it was, or in how long it will be. Its title has the date. */
export function moment(at) {
  if (!at) return "";
  const [date, datetime] = [new Date(at), new Date(at).toISOString()];
  const title = date.toLocaleString("en-US", { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
  return h("time", { datetime, title }, clock(at), h("small", {}, ` ${since(datetime)}`));
}

/** Return a duration in milliseconds as text that sorts by its length. */
export const lasting = (milliseconds, text = duration(milliseconds, 1), bad = false) =>
  h("data", { value: String(Math.round(milliseconds)), class: bad && "bad" }, text);

/** Return how many of something bad there are. */
export const alarm = (count) => h("data", { value: String(count), class: count > 0 && "bad" }, count.toLocaleString("en"));

/** Return grey lines in the place of what is being read. */
export const skeleton = () => [
  h("h1", { class: "unseen" }, "Reading …"),
  h("div", { class: "skeleton", "aria-hidden": "true" }, Array.from({ length: 7 }, () => h("span"))),
];

const SORTED = { "1": "ascending", "-1": "descending" };

/** Let the columns of each table sort it, by `sort=COLUMN` of the address, or `-COLUMN` for the largest first: the rows
 *  that are shown, which a note says of a list with other pages. The API sorts by a column that is `served`. */
export function sortable(root, parts, { sort = "", ...query }) {
  for (const { tHead, tBodies, parentNode: whole } of root.querySelectorAll("table")) {
    [...tHead.rows[0].cells].forEach((head, at) => {
      const name = head.textContent;
      const own = head.querySelector("[data-served]");
      if (own) return head.setAttribute("aria-sort", sort ? "none" : own.dataset.served);
      if (tBodies[0].rows.length < 2) return;
      if (tBodies[0].rows[0].cells[at].querySelector("button, svg")) return;
      const by = sort === name ? 1 : sort === `-${name}` ? -1 : 0;
      const next = { "0": name, "1": `-${name}`, "-1": "" }[by];
      head.setAttribute("aria-sort", SORTED[by] ?? "none");
      head.replaceChildren(h("a", { href: place(parts, { ...query, sort: next }) }, name));
      if (!by) return;
      tBodies[0].append(...[...tBodies[0].rows].sort((one, other) => by * compared(one.cells[at], other.cells[at])));
      const pages = whole.nextElementSibling;
      if (pages?.matches(".pages"))
        pages.before(h("p", { class: "note" }, `Only the ${tBodies[0].rows.length} rows shown are sorted by ${name}: the list has other pages.`));
    });
  }
  if (sort) for (const page of root.querySelectorAll(".pages a")) page.href += `${page.href.includes("?") ? "&" : "?"}${new URLSearchParams({ sort })}`;
}

/** Compare two cells by their times, numbers or texts. An empty one is the smallest. */
function compared(...cells) {
  const [one, other] = cells.map((cell) => {
    const exact = cell.querySelector("time, data");
    return exact?.dateTime ?? exact?.value ?? cell.textContent;
  });
  const [first, second] = [one, other].map((text) => (text === "" ? NaN : Number(text.replaceAll(",", ""))));
  return Number.isNaN(first) || Number.isNaN(second) ? one.localeCompare(other, "en", { numeric: true }) : first - second;
}

/** Return a state as a coloured badge. */
export const badge = (state) => h("span", { class: `badge ${state}` }, state);

/** Return a value as JSON to read. */
export const json = (value) => h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

/** Return whether a value is a large one, of which the API sends the size and the hash. */
export const isLarge = (value) => typeof value?.$payload?.sha256 === "string";

/** Return the size of a large value and the link that downloads it; `path` is the address of its owner. */
export const large = ({ $payload: { bytes: count, sha256 } }, path) => [
  `${bytes(count)} `,
  h("a", { href: `${path}/payloads/${encodeURIComponent(sha256)}`, download: `${sha256.slice(0, 12)}.json`, "data-download": true }, "Download"),
];

/** Return a value as JSON to read. A large one, or a large member, is its size and a link. */
export const value = (shown, path) =>
  isLarge(shown)
    ? h("p", {}, large(shown, path))
    : [json(shown), members(shown).filter(([, member]) => isLarge(member)).map(([name, member]) => h("p", {}, `${name}: `, large(member, path)))];

const members = (shown) => (shown && typeof shown === "object" ? Object.entries(shown) : []);

/** Return a value on one line, cut. A large one is its size and a link. */
export const brief = (shown, path, most) => (isLarge(shown) ? large(shown, path) : short(shown, most));

const bytes = (count) => (count < 1024 * 1024 ? `${Math.round(count / 1024)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`);

/** Return a value as JSON on one line, cut. */
export function short(value, most = 120) {
  const text = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Change an element so that it equals another one. What stays keeps its focus and the text that is typed in it. */
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const opened = old.nodeName === "DETAILS" && old.dataset.key === fresh.dataset.key; // by a person
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(opened && name === "open")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const kept = [...old.childNodes];
  const wanted = [...fresh.childNodes];
  wanted.forEach((child, at) => (kept[at] ? morph(kept[at], child) : old.append(child)));
  kept.slice(wanted.length).forEach((each) => each.remove());
}
