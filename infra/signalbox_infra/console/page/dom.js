// Elements of the page. What the API returns is text here: a value becomes a text node or an attribute, never markup,
// and links lead to places of this page only.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children; a child that is no node is text, and one that is null is left out. */
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
export function table(caption, heads, rows, empty = "None.") {
  if (!rows.length) return h("p", { class: "note" }, `${caption}: ${empty}`);
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each) => h("th", { scope: "col" }, each)),
    ),
  );
  const body = h(
    "tbody",
    {},
    rows.map((row) => h("tr", { class: row.class }, (row.cells ?? row).map(cell))),
  );
  const whole = h("table", {}, h("caption", {}, caption), head, body);
  const reached = whole.querySelector("a, button"); // with the keyboard; what has neither is scrolled by itself
  return h("div", { class: "scroll", ...(!reached && { tabindex: "0", role: "region", "aria-label": caption }) }, whole);
}

const cell = (value) =>
  h(
    "td",
    { class: typeof value === "number" ? "number" : null },
    typeof value === "number" ? value.toLocaleString("en") : value,
  );

/** Return a list of names with their values; what has no value is left out. */
export const facts = (pairs) =>
  h(
    "dl",
    {},
    Object.entries(pairs)
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );

/** Return a form with one field, which leads to the place that it names; `name` puts it into the query instead. */
export function finder(label, parts, { name = "", value = "" } = {}) {
  const field = h("input", { name: name || "part", value, size: 32, autocomplete: "off", spellcheck: "false" });
  return h("form", { "data-to": JSON.stringify(parts) }, h("label", {}, `${label} `, field), h("button", {}, "Show"));
}

/** Return links that choose a value of a query's parameter, as of a state; `none` is what it is called without one. */
export const choices = (label, parts, name, values, chosen, none = "all") =>
  h(
    "p",
    {},
    `${label}: `,
    ["", ...values].map((value) => [
      " ",
      value === chosen
        ? h("strong", { "aria-current": "true" }, value || none)
        : link(parts, value || none, { [name]: value }),
    ]),
  );

/** Return a link to the next page of a list, if there is one. */
export const nextPage = (parts, query, token) =>
  token && h("p", {}, link(parts, "Next page", { ...query, page_token: token }));

/** Return a state as a coloured badge. */
export const badge = (state) => h("span", { class: `badge ${state}` }, state);

/** Return a value as JSON to read. */
export const json = (value) => h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

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
