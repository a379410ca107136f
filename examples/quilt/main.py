"""A quilt of n × n squares: a batch with a unit for each square, and one completion task when all are painted.

POST {base}quilt {"quilt": "q1", "side": 8}      202; the batch has the quilt's name. With "torn": 3, three squares fail
GET  {base}quilt/q1                              the page that shows it while it is painted
GET  {base}batches/q1                            its state and counts
GET  {base}batches/q1/units                      each square: {"row", "column", "color"}
"""

import random
import uuid
from typing import Any

from signalbox import Completion, Function, Problem, Request, Response, TaskContext, Unit, batch, documents

SIDE_MAX = 100
HTML = {"Content-Type": "text/html; charset=utf-8"}

app = Function("quilt")


class BadQuilt(Problem):
    title = "`quilt` and `side` are required"


class Torn(Problem):
    status = 409
    title = "The square is torn"


@app.http("POST")
def sew(request: Request) -> Response:
    quilt, side, torn = _parsed(request.json_object())
    squares = [paint.call(row=row, column=column) for row in range(side) for column in range(side)]
    for at in random.Random(quilt).sample(range(len(squares)), min(torn, len(squares))):  # noqa: S311  no secret
        squares[at] = paint.call(row=at // side, column=at % side, torn=True)
    batch(quilt).populate(squares, on_complete=announce.call(quilt=quilt))
    return Response(202, {"batch": quilt, "squares": len(squares)})


@app.http("GET", "/{quilt}")
def show(_: Request, quilt: str) -> Response:
    """Return the page, which takes the quilt's name from its own address."""
    del quilt
    return Response(200, PAGE.encode(), HTML)


@app.task
def paint(unit: Unit, row: int, column: int, torn: bool = False) -> dict[str, Any]:
    """Return a square's colour: the same in every delivery of its unit. A torn one fails at once."""
    if torn:
        raise Torn(f"row {row}, column {column}")
    chosen = random.Random(f"{unit.batch} {unit.index}").randrange(0x1000000)  # noqa: S311  a colour, not a secret
    return {"row": row, "column": column, "color": f"#{chosen:06X}"}


@app.task
def announce(completion: Completion, context: TaskContext, quilt: str) -> None:
    """Store that the quilt is complete, under a random key: a second announcement would be detected.

    A task may be delivered twice; `task` distinguishes that from a second task.
    """
    counts = {"squares": completion.size, "failed": completion.failed}
    announcement = {"kind": "announcement", "quilt": quilt, "task": context.operation, **counts}
    documents.put(f"{quilt}-complete-{uuid.uuid4()}", announcement)


def _parsed(body: dict[str, Any]) -> tuple[str, int, int]:
    match {"torn": 0, **body}:
        case {"quilt": str(quilt), "side": int(side), "torn": int(torn)} if (
            quilt and 0 <= side <= SIDE_MAX and torn >= 0
        ):
            return quilt, side, torn
    raise BadQuilt(f"`quilt` must be a string and `side` an integer from 0 to {SIDE_MAX}.")


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Quilt</title>
<link rel="icon" href="data:,">
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
  header { display: flex; gap: 1rem; align-items: center }
  h1 { margin: 0; font-size: 1.4rem }
  progress { width: 100%; height: 1rem }
  #quilt { display: grid; gap: 1px; margin-top: 1rem; background: #ddd; border: 1px solid #ddd }
  #quilt i { aspect-ratio: 1; background: #fff; overflow: hidden }
  #quilt i.failed { background: repeating-linear-gradient(45deg, #222 0 3px, #fff 3px 6px) }
  #spinner { width: 1.2rem; height: 1.2rem; border: 3px solid #ccc; border-top-color: #06c; border-radius: 50%;
    animation: turn 1s linear infinite }
  @keyframes turn { to { transform: rotate(1turn) } }
</style>
<header><h1></h1><div id="spinner" role="status" aria-label="still being painted"></div></header>
<p><progress value="0"></progress><br><span id="counts">…</span></p>
<div id="quilt"></div>
<p id="more"></p>
<script>
  "use strict";
  const name = decodeURIComponent(location.pathname.split("/").pop());
  const batch = `../batches/${encodeURIComponent(name)}`;
  const find = (selector) => document.querySelector(selector);
  const states = new Map();  // of each square, by its index: one that is retried comes again
  let squares = [], last = "";

  function lay(size) {
    const side = Math.round(Math.sqrt(size));
    find("#quilt").style.gridTemplateColumns = `repeat(${side || 1}, 1fr)`;
    squares = Array.from({length: size}, () => document.createElement("i"));
    find("#quilt").replaceChildren(...squares);
    find("progress").max = size || 1;
  }

  function colour(unit) {
    const square = squares[unit.index];
    square.dataset.times = Number(square.dataset.times || 0) + 1;
    square.className = unit.state;
    square.style.background = unit.result ? unit.result.color : "";
    square.title = unit.error || unit.result.color;
    states.set(unit.index, unit.state);
    find("progress").value = states.size;
    const failed = [...states.values()].filter((state) => state === "failed").length;
    count({succeeded: states.size - failed, failed, remaining: squares.length - states.size});
  }

  function count(status) {
    find("#counts").textContent = `${status.succeeded} painted, ${status.failed} failed, ${status.remaining} to come`;
  }

  function complete(status) {
    count(status);
    document.body.dataset.completed = Number(document.body.dataset.completed || 0) + 1;
    document.body.dataset.state = status.state;
    find("progress").value = find("progress").max;
    find("#spinner").remove();
  }

  function watch() {
    const events = new EventSource(`${batch}/events${last && `?last_event_id=${last}`}`);
    const on = (kind, handle) => events.addEventListener(kind, (event) => {
      last = event.lastEventId;
      handle(JSON.parse(event.data));
    });
    on("unit", colour);
    on("complete", (status) => { events.close(); complete(status); });
    // It connects again by itself, unless it was refused: too many pages watch.
    events.addEventListener("error", () => { if (events.readyState === EventSource.CLOSED) setTimeout(watch, 5000); });
  }

  async function show() {
    const answer = await fetch(batch);
    const status = await answer.json();
    if (!answer.ok || status.state === "open") {  // not all squares are there yet
      find("#counts").textContent = status.detail || "being laid out";
      setTimeout(show, 500);
      return;
    }
    lay(status.size);
    count(status);
    watch();
  }

  find("h1").textContent = name;
  show();
</script>
</html>
"""

quilt = app.entry_point()
