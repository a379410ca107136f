// Standings: the kinds that are declared, the leaderboard of one, and one standing.

import { address, get, taskName } from "./api.js";
import { choices, facts, finder, h, link, nextPage, table } from "./dom.js";

export const TITLE = "Standings";
const FIRST_ORDER = "count"; // that of the API, if none is named
const ORDERS = [FIRST_ORDER, "sum", "average", "min", "max"];

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

async function leaderboard(kind, { order_by = "", page_token }) {
  const page = await get(address("standings", kind), { order_by, page_token });
  return [
    h("h1", {}, kind),
    finder("Id of a standing", ["standings", kind]),
    choices("Order by", ["standings", kind], "order_by", ORDERS.slice(1), order_by === FIRST_ORDER ? "" : order_by, FIRST_ORDER),
    table(
      "The largest first",
      ["id", ...ORDERS],
      page.standings.map((each) => [link(["standings", kind, each.id]), ...ORDERS.map((name) => each[name] ?? "")]),
    ),
    nextPage(["standings", kind], { order_by }, page.next_page_token),
  ];
}

async function one(kind, id) {
  const { kind: _, id: shown, pending, ...counted } = await get(address("standings", kind, id));
  return [h("h1", {}, shown), facts({ ...counted, "changes not added yet": pending })];
}
