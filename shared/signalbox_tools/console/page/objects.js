// Objects: the classes of the catalogue, the objects of one, and one object: its revision and how many calls wait for it.

import { address, get } from "./api.js";
import { buttons } from "./actions.js";
import { badge, facts, finder, h, link, pager, table, value } from "./dom.js";

export const TITLE = "Objects";

export function show({ about, parts: [function_, class_, key], query }) {
  if (!class_) return classes(about.objects);
  return key === undefined ? listed(function_, class_, query) : one(function_, class_, key, about);
}

const classes = (all) => [
  h("h1", {}, TITLE),
  table(
    "The classes of the catalogue",
    ["class", "function"],
    all.map((each) => [link(["objects", each.function, each.class], each.class), each.function]),
  ),
];

async function listed(function_, class_, { prefix = "", page_token }) {
  const here = ["objects", function_, class_];
  const page = await get(address(function_, "objects", class_), { prefix, page_token });
  return [
    h("h1", {}, `Objects of ${class_}`),
    finder("Key of an object", here),
    finder("Keys that begin with", here, { name: "prefix", value: prefix }),
    table(
      "By key",
      ["key"],
      page.objects.map(({ key }) => [link([...here, key])]),
      prefix ? "none match." : `none. POST ${address(function_, "objects", class_, "KEY", "METHOD")} creates one.`,
    ),
    pager(here, { prefix, page_token }, page.next_page_token),
  ];
}

async function one(function_, class_, key, about) {
  const path = address(function_, "objects", class_, key);
  const shown = await get(path, { state: "true" });
  return [
    h("h1", {}, `${shown.class}/${shown.key}`),
    facts({
      exists: badge(shown.exists ? "yes" : "no"),
      revision: String(shown.revision),
      "calls that wait": shown.waiting,
    }),
    shown.exists && [h("h2", {}, "State"), value(shown.state?.fields ?? shown.state, path)],
    shown.exists && buttons(about, ["delete-object"], { function: function_, class: class_, key }),
    !shown.exists && h("p", { class: "note" }, "It has never been called, or it was deleted. A call of a method creates it."),
  ];
}
