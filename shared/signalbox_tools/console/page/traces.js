// Traces of the local stack: a request, its commits, the tasks and events that follow from it, and the runs of flows.

import { clock, duration, get } from "./api.js";
import { alarm, facts, finder, h, lasting, link, moment, short, table } from "./dom.js";
import { axis, bar } from "./timeline.js";

export const TITLE = "Traces";
const INDENTED_MAX = 8;

export async function show({ about, parts: [trace], query: { search = "" } }) {
  if (!about.has_traces)
    return [
      h("h1", {}, TITLE),
      h("p", { class: "note" }, "The local stack's console shows traces. Functions of a deployment export theirs to Cloud Trace, if their environment has OTEL_EXPORTER_OTLP_ENDPOINT."),
    ];
  return trace ? one(await get(`/console/traces/${encodeURIComponent(trace)}`), about) : all(search);
}

async function all(search) {
  const { traces } = await get("/console/traces", { search });
  return [
    h("h1", {}, TITLE),
    finder("Function, path, id or error", ["traces"], { name: "search", value: search }),
    table(
      "The newest 100",
      ["request", "began", "took", "requests", "failed"],
      traces.map((each) => [
        [link(["traces", each.trace], each.name), " ", h("small", {}, each.about)],
        moment(each.from / 1000),
        took(each),
        each.requests,
        alarm(each.failed),
      ]),
      search ? "none match." : "none. Call a function, and it appears here.",
    ),
  ];
}

const took = ({ from, to }) => lasting((to - from) / 1000, milliseconds(to - from));

/** Return a duration in microseconds, below 2 s in milliseconds. */
const milliseconds = (microseconds) =>
  microseconds < 2_000_000 ? `${(microseconds / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} ms` : duration(microseconds / 1000, 1);

function one(trace, about) {
  const scale = { from: trace.from / 1000, length: Math.max(1, (trace.to - trace.from) / 1000) };
  return [
    h("h1", {}, trace.name),
    facts({
      of: trace.about,
      began: moment(trace.from / 1000),
      took: took(trace),
      requests: trace.requests,
      failed: trace.failed && h("span", { class: "bad" }, `${trace.failed}`),
      trace: trace.trace,
    }),
    h("h2", {}, "Spans"),
    h("div", { class: "timeline spans" }, axis(scale), inOrder(trace.spans).map((span) => row(span, scale, about))),
    !trace.complete && h("p", { class: "note" }, `The first ${trace.spans.length} spans.`),
  ];
}

/** Return the spans, each behind the one that it follows from, with its depth. */
function inOrder(spans) {
  const ids = new Set(spans.map(({ id }) => id));
  const below = Map.groupBy(spans, ({ id, parent }) => (ids.has(parent) && parent !== id ? parent : ""));
  const listed = (parent, depth) => (below.get(parent) ?? []).flatMap((span) => [{ ...span, depth }, ...listed(span.id, depth + 1)]);
  return listed("", 0);
}

function row(span, { from, length }, about) {
  const share = { x: (span.from / 1000 - from) / length, width: (span.to - span.from) / 1000 / length };
  const { attributes } = span;
  return h(
    "details",
    { class: `span ${span.kind}`, "data-key": span.id, "data-row": true },
    h(
      "summary",
      { class: "row" },
      h("span", { class: `name depth-${Math.min(span.depth, INDENTED_MAX)}${span.error ? " bad" : ""}` }, span.name, h("small", {}, ` ${told(span)}`)),
      bar(span.error ? "failed" : span.kind, share),
      h("span", { class: "took" }, took(span)),
    ),
    h(
      "div",
      { class: "more" },
      facts({
        began: clock(span.from / 1000),
        error: span.error,
        ...Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.replaceAll("_", " "), short(value)])),
      }),
      run(span, about),
    ),
  );
}

/** Return the text next to the name of a span in its row. */
const told = ({ name, attributes, error }) =>
  [
    attributes.writes !== undefined && (name === "commit" || name === "write each") && `${attributes.writes} ${attributes.writes === 1 ? "write" : "writes"}`,
    attributes.id && `${attributes.id}`,
    attributes.attempt > 1 && `attempt ${attributes.attempt}`,
    error,
  ]
    .filter(Boolean)
    .join(", ");

function run({ kind, attributes: { flow, id } }, { flows }) {
  const known = kind === "recorded" && flows.find((each) => each.flow === flow);
  return known && h("p", {}, "Run: ", link(["flows", known.function, flow, id], `${flow}/${id}`));
}
