// Drives a resource with refine's data provider for REST APIs, and prints what it got as JSON.
//
//   node refine_client.mjs FOLDER_OF_PACKAGES BASE_URL

import {createRequire} from "node:module";
import {join} from "node:path";

const [folder, base] = process.argv.slice(2);
const provider = createRequire(join(folder, "package.json"))("@refinedev/simple-rest").default(base.replace(/\/$/, ""));
const resource = "todos";
const got = {};

for (const [order, text] of ["buy tea", "write to Ann", "water the plants"].entries())
  (got.created ??= []).push((await provider.create({resource, variables: {text, order}})).data);
const ids = got.created.map((each) => each.id);

got.one = (await provider.getOne({resource, id: ids[1]})).data;
got.updated = (await provider.update({resource, id: ids[1], variables: {done: true}})).data;
got.page = await provider.getList({
  resource,
  pagination: {currentPage: 2, pageSize: 2},
  sorters: [{field: "order", order: "desc"}],
});
got.filtered = await provider.getList({
  resource,
  filters: [{field: "done", operator: "eq", value: false}, {field: "order", operator: "gte", value: 1}],
});
got.many = (await provider.getMany({resource, ids: [ids[0], ids[2]]})).data;
got.whole = await provider.getList({resource, pagination: {mode: "off"}, sorters: [{field: "id", order: "asc"}]});
await provider.deleteOne({resource, id: ids[0]});
got.left = await provider.getList({resource});
got.missing = await provider.getOne({resource, id: ids[0]}).catch((error) => error.statusCode);
got.wrong = await provider
  .create({resource, variables: {order: "first"}})
  .catch((error) => ({status: error.statusCode, problem: error.response.data}));

console.log(JSON.stringify(got));
