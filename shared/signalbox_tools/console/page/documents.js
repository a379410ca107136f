// Documents: a list by the beginning of their keys, and one with its links, drawn, and its versions.

import { address, clock, get, tagged } from "./api.js";
import { buttons } from "./actions.js";
import { finder, h, json, link, moment, pager, short, table } from "./dom.js";
import { graph } from "./graph.js";

export const TITLE = "Documents";
const LAST = "\u{10FFFF}"; // behind every key that begins in the same way
const LISTED = 50;
const DRAWN = 12;

export const show = ({ about, parts, query }) => (parts.length ? one(parts[0], query, about) : all(query));

async function all({ prefix = "", page_token }) {
  const where = prefix ? [`key>=${JSON.stringify(prefix)}`, `key<=${JSON.stringify(prefix + LAST)}`] : [];
  const listed = await get("/documents", { where, order_by: "key", limit: LISTED, page_token });
  return [
    h("h1", {}, TITLE),
    finder("Key of a document", ["documents"]),
    finder("Keys that begin with", ["documents"], { name: "prefix", value: prefix }),
    table(
      "By key",
      ["key", "content"],
      listed.documents.map(({ key, ...content }) => [link(["documents", key]), short(content, 160)]),
      prefix ? "none match." : "none. PUT /documents/KEY stores one.",
    ),
    pager(["documents"], { prefix, page_token }, listed.next_page_token),
  ];
}

async function one(key, { field = "", version, page_token }, about) {
  if (version) return past(key, version, about);
  const [[document_, etag], versions, linking] = await Promise.all([
    tagged(address("documents", key)),
    get(address("documents", key, "versions"), { limit: 20, page_token }),
    field ? linkingBy(field, key) : [],
  ]);
  const links = linksOf(document_, key);
  return [
    h("h1", {}, key),
    h("h2", {}, "Links"),
    drawn(key, links, linking, field),
    table(
      "From here",
      ["from", "field", "to"],
      links.map(({ from, to, field: at }) => [from, at, link(["documents", to])]),
    ),
    finder("Which documents link here by the field", ["documents", key], { name: "field", value: field }),
    field &&
      table(
        "To here, the first 50",
        ["key", "content"],
        linking.map(({ key: from, ...content }) => [link(["documents", from]), short(content)]),
      ),
    h("h2", {}, "Content"),
    json(document_),
    etag && buttons(about, ["edit-document", "delete-document"], { key }, null, { value: contentOf(document_), etag }),
    h("h2", {}, "Versions"),
    table(
      "The latest first",
      ["version", "at", "author", "action"],
      versions.versions.map((each) => [
        link(["documents", key], String(each.version), { version: each.version }),
        moment(each.at),
        each.author ?? "",
        each.action,
      ]),
      "none are kept of this document.",
    ),
    pager(["documents", key], { field, page_token }, versions.next_page_token),
  ];
}

const contentOf = ({ key: _, ...content }) => content;

async function past(key, version, about) {
  const shown = await get(address("documents", key, "versions", version));
  return [
    h("h1", {}, `${key}, version ${shown.version}`),
    h("p", {}, link(["documents", key], "The document as it is now")),
    h("p", { class: "note" }, `${shown.action} at ${clock(shown.at)}${shown.author ? ` by ${shown.author}` : ""}`),
    json(shown.document),
    buttons(about, ["restore-version"], { key, version: String(shown.version) }),
  ];
}

/** Return the documents that link to a key by a field: what a link holds is the key. */
const linkingBy = async (field, key) =>
  (await get("/documents", { where: `${field}.key==${JSON.stringify(key)}`, limit: LISTED })).documents;

/** Return the links of a document, and of the copies in it: {from, field, to}. */
function linksOf(value, from, at = []) {
  if (Array.isArray(value)) return value.flatMap((each, index) => linksOf(each, from, [...at, index]));
  if (value === null || typeof value !== "object") return [];
  const isLink = at.length > 0 && typeof value.key === "string";
  const here = isLink ? [{ from, field: at.join("."), to: value.key }] : [];
  const inside = Object.entries(value).filter(([name]) => name !== "key");
  return [
    ...here,
    ...inside.flatMap(([name, each]) =>
      isLink ? linksOf(each, value.key, [name]) : linksOf(each, from, [...at, name]),
    ),
  ];
}

function drawn(key, links, linking, field) {
  const edges = [
    ...links.map(({ from, to, field: text }) => ({ from, to, text })),
    ...linking.map(({ key: from }) => ({ from, to: key, text: field })),
  ];
  const ids = [...new Set([key, ...edges.flatMap(({ from, to }) => [from, to])])];
  if (ids.length < 2) return null;
  const nodes = ids.slice(0, DRAWN).map((id) => ({ id, to: ["documents", id], marked: false }));
  const kept = new Set(nodes.map(({ id }) => id));
  return [
    graph(
      "Links; the tables below have the same",
      nodes,
      edges.filter(({ from, to }) => from !== to && kept.has(from) && kept.has(to)),
      { hub: true },
    ),
    ids.length > DRAWN && h("p", { class: "note" }, `The first ${DRAWN} of ${ids.length} documents.`),
  ];
}
