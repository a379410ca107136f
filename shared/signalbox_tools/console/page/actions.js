// The actions of a person: buttons for the calls that the page's server permits, and the dialog that asks before each.

import { address, get, Problem, send } from "./api.js";
import { h, link } from "./dom.js";

const WHOLE = "*"; // the value is the body
const BODY = "body "; // in the name of an input: a field of the body
const AT_ONCE = 4; // calls of an action for all that match
const ON_RUNS = "act-on-runs"; // the action that is one call for all runs that match
const FOLLOWED_MILLISECONDS = 500;

/** Return buttons for actions. `values` are the parts of their addresses. With `all`, a list {path, query, items}, an
 *  action is for each item of all its pages, whose id is the part `id`; with `runs` in it, which chooses the same runs for
 *  the function, one call does it, if there is one. `seen` is what the page shows: {value, etag}, and `fields` are
 *  proposals for fields of the body. */
export const buttons = ({ actions }, names, values, all = null, seen = null, fields = null) => {
  const known = names.filter((name) => Object.hasOwn(actions, name));
  if (!known.length) return null;
  return h(
    "p",
    { class: "actions" },
    all && "All that match: ",
    known.map((name) =>
      h(
        "button",
        {
          type: "button",
          "data-action": name,
          "data-values": JSON.stringify(values),
          "data-all": all && JSON.stringify(all),
          "data-seen": seen && actions[name].seen && JSON.stringify(seen),
          "data-fields": fields && actions[name].fields && JSON.stringify(fields),
        },
        actions[name].title,
      ),
    ),
  );
};

const dialog = document.getElementById("action");
let asked = null;

/** Ask for the values that a button's action needs. `done` is called after it. */
export async function ask(button, { actions }, done) {
  const action = actions[button.dataset.action];
  const all = button.dataset.all ? JSON.parse(button.dataset.all) : null;
  const values = JSON.parse(button.dataset.values);
  const seen = button.dataset.seen ? JSON.parse(button.dataset.seen) : null;
  const batch = all?.runs && action.on_all && actions[ON_RUNS];
  const mine = { action, all, batch, values, seen, done, stopped: false, count: 0, key: crypto.randomUUID() };
  asked = mine;
  const proposed = button.dataset.fields ? JSON.parse(button.dataset.fields) : {};
  const missing = action.names.filter((name) => !(name in values) && !(all && name === "id"));
  dialog.replaceChildren(
    h(
      "form",
      { method: "dialog", "data-act": true },
      h("h2", { id: "action-title" }, action.title),
      h("p", { id: "action-what" }, all ? "Counting …" : Object.values(values).join(" ")),
      h("p", {}, action.effect),
      missing.map((name) => labelled(name, h("input", { name, required: true, autocomplete: "off" }))),
      action.fields?.map(({ name, number }) =>
        labelled(
          name.replaceAll("_", " "),
          h("input", {
            name: BODY + name,
            value: String(proposed[name] ?? ""),
            type: number ? "number" : "text",
            min: number && "0",
            required: true,
            autocomplete: "off",
          }),
        ),
      ),
      action.value &&
        labelled(
          action.value === WHOLE ? "Content, as JSON" : "Value, as JSON",
          h("textarea", { name: "value", rows: seen ? 16 : 3, spellcheck: "false" }, JSON.stringify(seen?.value ?? null, null, 2)),
        ),
      labelled("Why", h("input", { name: "reason", required: true, maxlength: 500, autocomplete: "off" })),
      action.previews && !all && h("div", { id: "action-preview" }),
      h("progress", { hidden: true, "aria-label": "Done" }),
      h("p", { role: "alert", class: "bad" }),
      h("p", { id: "action-answer", role: "status" }),
      h("p", {}, h("button", { name: "confirm", disabled: Boolean(all) }, action.title), " ", h("button", { type: "button", name: "close" }, "Close")),
    ),
  );
  dialog.showModal();
  dialog.querySelector("[name=close]").addEventListener("click", () => dialog.close());
  dialog.querySelector("input").focus();
  const form = dialog.querySelector("form");
  if (!all && action.previews) {
    for (const { name } of action.fields ?? []) form.elements[BODY + name].addEventListener("change", () => preview(form, mine));
    await preview(form, mine);
  }
  if (!all) return;
  try {
    counted(form, mine, (await get(all.path, { ...all.query, count: "true" })).count);
  } catch (problem) {
    said(form, problem);
  }
}

/** Show how many match. Without a number nothing can be confirmed. */
function counted(form, mine, count) {
  mine.count = count;
  form.querySelector("#action-what").textContent = `${count.toLocaleString("en")} match.`;
  form.querySelector("[name=confirm]").disabled = count === 0;
}

const labelled = (text, field) => h("label", {}, `${text} `, field);

dialog.addEventListener("close", () => {
  if (asked) asked.stopped = true;
});

/** Send the action of the dialog. Its answer may come when the dialog already asks for something else. */
export async function act(form) {
  const given = Object.fromEntries(new FormData(form));
  const mine = asked;
  const { action, all, values, seen, done } = mine;
  const confirm = form.querySelector("[name=confirm]");
  confirm.disabled = true;
  said(form, null);
  try {
    const body = bodyOf(action, given);
    if (mine.batch) await asBatch(form, mine, given.reason);
    else if (all) await forEach(form, mine, (id) => call(action, { ...values, id }, body, given.reason));
    else {
      const said = toldBy(action, await call(action, { ...given, ...values }, body, given.reason, { etag: seen?.etag }));
      form.querySelector("#action-answer").textContent = said;
      if (said) return;
    }
    if (form.isConnected) dialog.close();
  } catch (problem) {
    said(form, problem);
  } finally {
    confirm.disabled = false;
    done();
  }
}

/** Return what the dialog stays open for: the answer of an update, or a warning about a message; or nothing. */
function toldBy({ answers }, answer) {
  if (!answers) return answer?.warning ?? "";
  return answer.ready ? `The answer: ${JSON.stringify(answer.result)}` : `There is no answer yet. ${answer.warning ?? ""}`;
}

function bodyOf({ method, reason: place, value, fields }, given) {
  if (method === "DELETE") return undefined;
  const { reason, value: text } = given;
  if (fields) return { ...(place === "body" && { reason }), ...fieldsOf(fields, given) };
  try {
    if (value === WHOLE) return JSON.parse(text);
    return { ...(place === "body" && { reason }), ...(value && { [value]: JSON.parse(text) }) };
  } catch {
    throw new Problem(0, { title: "The value is not JSON", detail: 'Write a text in quotation marks: "yes".' });
  }
}

const fieldsOf = (fields, given) => Object.fromEntries(fields.map(({ name, number }) => [name, number ? Number(given[BODY + name]) : given[BODY + name]]));

/** Show what a retry would drop and run again, from a dry run. Until there is an answer, nothing can be confirmed. */
async function preview(form, mine) {
  const { action, values } = mine;
  const confirm = form.querySelector("[name=confirm]");
  const asked = (mine.previewed = Symbol("preview"));
  confirm.disabled = true;
  try {
    const fields = action.fields ? fieldsOf(action.fields, Object.fromEntries(new FormData(form))) : {};
    const { keeps, runs_again, sub_flows, drops, dropped, cancels, ended } = await call(action, values, { dry_run: true, ...fields }, "a dry run");
    if (mine.previewed !== asked) return;
    const listed = (title, items) => items.length > 0 && [h("p", {}, title), h("ul", {}, items.map((each) => h("li", {}, each)))];
    form.querySelector("#action-preview").replaceChildren(
      ...[
        h("p", {}, `${keeps} entries stay.`),
        listed("Runs again:", runs_again.map(named)),
        listed("Runs again in the sub-flows, which continue:", sub_flows.flatMap(({ flow, id, runs_again: below }) => below.map((each) => `${flow}/${id}, ${named(each)}`))),
        listed(`Dropped (${dropped}); their effects are not undone, and their events and updates are received again:`, drops.map(named)),
        listed("Cancelled, and begun again where the code waits for it:", cancels),
        listed("Of these, some have ended and run a second time (with fixed code, the run needs no retry, and nothing runs twice):", ended),
      ]
        .flat()
        .filter(Boolean),
    );
    said(form, null);
    confirm.disabled = false;
  } catch (problem) {
    if (mine.previewed === asked) said(form, problem);
  }
}

const named = ({ number, entry, command, name }) => `${number}: ${command ?? (name ? `${entry} ${name}` : entry)}`;

function call({ method, path, reason: place }, values, body, reason, options) {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name]));
  const query = place === "query" ? `?${new URLSearchParams({ reason })}` : "";
  return send(method, filled + query, body, reason, options);
}

/** Throw a `Problem` if more match than were counted: they are to be confirmed again. */
function checked(form, mine, count) {
  if (count <= mine.count) return;
  counted(form, mine, count);
  throw new Problem(0, { title: "More match now", detail: "Nothing was sent. Confirm again to act on all of them." });
}

/** Throw a `Problem` if some were refused. */
function refusedBy(count, first) {
  if (count) throw new Problem(0, { title: `${count.toLocaleString("en")} were refused`, detail: first });
}

/** Let the function act on all runs that match, as a batch, and show its progress until it has ended. */
async function asBatch(form, mine, reason) {
  const { action, all, batch, values } = mine;
  checked(form, mine, (await get(all.path, { ...all.query, count: "true" })).count);
  const body = { action: action.on_all, ...all.runs, ...(action.reason === "body" && { reason }) };
  const begun = await call(batch, values, body, reason, { key: mine.key });
  mine.key = crypto.randomUUID(); // a repeat without an answer is the same batch, another confirmation another one
  const place = link(["batches", begun.batch], "batch");
  place.addEventListener("click", () => dialog.close());
  form.querySelector("#action-what").replaceChildren("A ", place, ` acts on all ${begun.count.toLocaleString("en")}. Closing this does not stop it.`);
  const path = address("batches", begun.batch);
  const bar = form.querySelector("progress");
  while (!mine.stopped) {
    const { state, size, succeeded, failed } = await get(path);
    Object.assign(bar, { hidden: false, max: Math.max(size, 1), value: succeeded + failed });
    if (state === "cancelled") throw new Problem(0, { title: "The batch was cancelled", detail: `${succeeded.toLocaleString("en")} were done.` });
    if (state === "completed") return refusedBy(failed, failed && (await get(`${path}/units`, { state: "failed" })).units[0]?.error);
    await new Promise((resume) => setTimeout(resume, FOLLOWED_MILLISECONDS));
  }
}

/** Act on each item of a list, a few at once. Refusals are counted, and the others continue. */
async function forEach(form, mine, one) {
  const { path, query, items } = mine.all;
  const bar = form.querySelector("progress");
  const ids = [];
  for (let token = ""; token !== undefined; ) {
    const page = await get(path, { ...query, page_token: token });
    ids.push(...page[items].map(({ id }) => id));
    token = page.next_page_token;
  }
  checked(form, mine, ids.length);
  Object.assign(bar, { hidden: false, max: Math.max(ids.length, 1), value: 0 });
  const refused = [];
  const worker = async () => {
    for (let id = ids.shift(); id !== undefined && !mine.stopped; id = ids.shift()) {
      await one(id).catch((problem) => refused.push([id, problem]));
      bar.value++;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const [[id, first] = []] = refused;
  refusedBy(refused.length, first && `${id}: ${first.body.detail ?? first.message}`);
}

function said(form, problem) {
  const { title, detail } = problem?.body ?? {};
  form.querySelector("[role=alert]").textContent = problem ? [title ?? problem.message, detail].filter(Boolean).join(". ") : "";
}
