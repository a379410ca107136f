// Standings: the kinds that are declared, the leaderboard of one, and one standing.

import { address, get, taskName } from "./api.js";
import { facts, finder, h, link, pager, served, table } from "./dom.js";

export const TITLE = "Standings";
const ORDERS = ["count", "sum", "average", "min", "max"];

export function show({ parts: [kind, id], query }) {
  if (!kind) return kinds();
  return id === undefined ? leaderboard(kind, query) : one(kind, id);
}

async function kinds() {
  const { kinds: declared } = await get("/standings");
  return [
    h("h1", {}, TITLE),
    table(
      "Kinds",
      ["kind", "by", "on a threshold"],
      Object.entries(declared).map(([kind, { by, on_threshold }]) => [
        link(["standings", kind]),
        (by ?? []).join(", "),
        [on_threshold ?? []]
          .flat()
          .map(({ continuation }) => taskName(continuation))
          .join(", "),
      ]),
    ),
  ];
}

async function leaderboard(kind, { order_by = ORDERS[0], page_token }) {
  const page = await get(address("standings", kind), { order_by, page_token });
  return [
    h("h1", {}, kind),
    finder("Id of a standing", ["standings", kind]),
    table(
      "The largest first",
      ["id", ...ORDERS.map((name) => served(name, ["standings", kind], { order_by: name }, "descending", name === order_by))],
      page.standings.map((each) => [link(["standings", kind, each.id]), ...ORDERS.map((name) => each[name] ?? "")]),
    ),
    pager(["standings", kind], { order_by, page_token }, page.next_page_token),
  ];
}

async function one(kind, id) {
  const { kind: _, id: shown, pending, ...counted } = await get(address("standings", kind, id));
  return [h("h1", {}, shown), facts({ ...counted, "changes not added yet": pending })];
}
