"""Social Code: functions with competing implementations and tests, which import each other.

    PUT  {base}social-code/functions/Add/draft {"code": "def Add(a, b): …", "tests": "check(Add(1, 2) == 3)"}    202
    POST {base}social-code/functions/Add/draft/publish        its texts become versions, which never change
    PUT  {base}social-code/functions/Add/versions/ID/vote {"value": 1}
    GET  {base}social-code/functions/Add                      its versions, the current one, imports and dependants
    GET  {base}social-code                                    the page

Code imports a function by `{{Name}}`, in a comment, and gets its current implementation. A run's inputs are the code of
all imports, in order, and the tests. Its record has a hash of the inputs in its key, and the sandbox is deterministic.
So a run that is repeated writes the same record again, and a late run cannot replace the result of other inputs. The
current implementation follows from the versions, their votes and the runs of present inputs; each change of it has the
tests of all dependants run.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from callers import (
    NAME,
    BadVote,
    TooManyVersions,
    author_of,
    check_spelling,
    check_texts,
    published_version,
)
from inputs import (
    DOCUMENTS_AT_ONCE,
    PAGE_SIZE,
    Functions,
    acceptance_with,
    best_of,
    dependants,
    draft_inputs,
    function_key,
    not_run,
    run_key,
    runs_of,
)
from signalbox import (
    Call,
    Completion,
    Function,
    NotFound,
    Request,
    Response,
    Transaction,
    Unit,
    batch,
    critical_section,
    documents,
    flow,
    flows,
    invoke,
    standings,
    transaction,
    yokes,
)
from versions import (
    KINDS,
    Json,
    current_counts,
    digest,
    is_full,
    is_undecided,
    new_record,
    with_current,
    with_published,
    with_votes,
)

ROUNDS_MAX = 100
"""Changes of current implementations that follow from each other. Functions that exclude each other would never end."""

DEBOUNCE_SECONDS = 1
DEBOUNCE_SECONDS_MAX = 10
YOKES_AT_ONCE = 100
RUNS_A_TASK = 20
"""The units of a batch's task. The sandbox takes as many in a request."""

SANDBOX_SECONDS_MAX = 120
MESSAGE_LENGTH_MAX = 500
LOGS_LENGTH_MAX = 10_000
CHECKS_MAX = 1_000
"""The bounds of a result, as the sandbox promises them."""

PAGE = (Path(__file__).parent / "page.html").read_bytes()

app = Function("social_code")


# --- routes ---


@app.http("GET")
def page(_: Request) -> Response:
    return Response(200, PAGE, {"Content-Type": "text/html; charset=utf-8"})


@app.http("GET", "/functions")
def list_functions(request: Request) -> Json:
    """Return a page of the functions' names."""
    found = documents.query(
        ("type", "==", "SocialFunction"), limit=PAGE_SIZE, page_token=request.query.get("page_token", "")
    )
    return {"functions": [each["name"] for each in found.documents], "next_page_token": found.next_page_token}


@app.http("GET", "/authors")
def list_authors(_: Request) -> Json:
    """Return the authors with the most votes."""
    best: list[Json] = []
    with suppress(NotFound):  # the kind is declared with the first function
        best, _more = standings("social_author").top(order_by="sum", limit=20)
    return {"authors": [{"author": each["id"], "votes": each["sum"]} for each in best]}


@app.http("GET", "/drafts")
def list_drafts(request: Request) -> Json:
    """Return a page of the names of the caller's drafts."""
    found = documents.query(
        ("social_draft_of", "==", author_of(request)), limit=PAGE_SIZE, page_token=request.query.get("page_token", "")
    )
    return {"drafts": [each["name"] for each in found.documents], "next_page_token": found.next_page_token}


@app.http("PUT", "/functions/{name}/draft")
def save_draft(request: Request, name: str) -> Response:
    """Store the caller's draft of a function and enqueue its run, in one commit."""
    body, author = request.json_object(), author_of(request)
    texts = {kind: body.get(kind, "") for kind in KINDS}
    check_texts(name, texts)

    def commit(t: Transaction) -> None:
        check_spelling(t.get(function_key(name)), name)
        t.put(_draft_key(name, author), {"type": "SocialDraft", "name": name, "social_draft_of": author, **texts})
        t.enqueue(run_draft.call(name=name.lower(), author=author))

    transaction(commit)
    return Response(202, {"name": name})


@app.http("GET", "/functions/{name}/draft")
def show_draft(request: Request, name: str) -> Json:
    """Return the caller's draft with its run. Drafts of others are not shown."""
    author = author_of(request)
    draft = documents.get(_draft_key(name, author))
    last = documents.get_many([_draft_run_key(name, author)])[_draft_run_key(name, author)]
    run = runs_of({name: last})[name] if last and last["draft"] == _draft_digest(draft) else None
    return {**{kind: draft[kind] for kind in KINDS}, "state": state_of(run), "run": run}


@app.http("DELETE", "/functions/{name}/draft")
def delete_draft(request: Request, name: str) -> Response:
    documents.delete(_draft_key(name, author_of(request)))
    return Response(204)


@app.http("POST", "/functions/{name}/draft/publish")
def publish(request: Request, name: str) -> Response:
    """Publish the texts of the caller's draft as versions. A repeat publishes nothing more."""
    author = author_of(request)

    def commit(t: Transaction) -> Json:
        draft, record = t.get(_draft_key(name, author)), t.get(function_key(name))
        if draft is None:
            raise NotFound(f"You have no draft of {name}: save one first.")
        check_spelling(record, draft["name"])
        before = record or new_record(draft["name"])
        after = with_published(before, draft, author)
        if is_full(after):
            raise TooManyVersions("Publish under another name.")
        if after is not before:
            t.put(function_key(name), after)
            t.enqueue(changed.call(name=name.lower()))
        return after

    return Response(202, {"name": name, "versions": [each["id"] for each in transaction(commit)["versions"]]})


@app.http("PUT", "/functions/{name}/versions/{version_id}/vote")
def vote(request: Request, name: str, version_id: str) -> Response:
    """Vote for a version, or against it. A user has one vote for each version."""
    author, value = author_of(request), request.json_object().get("value")
    if value not in (1, -1) or isinstance(value, bool):
        raise BadVote("Send 1 or -1; DELETE takes a vote back.", field="value")
    published = published_version(name, version_id)
    yokes.put(author, _item(version_id), value, {"social_author": published["author"]})
    changed.call(name=name.lower()).enqueue()
    return Response(202, {"value": value})


@app.http("DELETE", "/functions/{name}/versions/{version_id}/vote")
def take_vote_back(request: Request, name: str, version_id: str) -> Response:
    published_version(name, version_id)
    yokes.delete(author_of(request), _item(version_id))
    changed.call(name=name.lower()).enqueue()
    return Response(202, {"value": 0})


@app.http("GET", "/functions/{name}")
def show(_: Request, name: str) -> Json:
    """Return a function with its versions and the runs of their present inputs: `state` is passed, failed or pending.

    Of a hub, 200 dependants are shown.
    It is implemented if its current implementation and all that it imports pass their tests.
    """
    lower, functions = name.lower(), Functions()
    record = functions.get(lower)
    if record is None:
        raise NotFound(f"There is no function {name}.")
    runs = runs_of(functions.candidates(lower))
    closure = functions.closure([lower])
    currents = {each: current for each in closure if (current := functions.current(each))}
    passed = {each for each, run in runs_of(currents).items() if run and run["success"]}
    implemented = {each for each in passed if current_counts(functions.record(each))}
    accepted = functions.acceptance(lower)
    acceptance = runs_of({lower: accepted})[lower] if accepted else None
    state = _state_of_function(record, runs)
    edges = documents.query(("social_imports", "contains", lower), limit=PAGE_SIZE)
    return {
        **{what: record[what] for what in ("name", "code", "current")},
        "versions": [{**each, "run": runs.get(each["id"])} for each in record["versions"]],
        "imports": [functions.spelled(each) for each in record["imports"]],
        "missing": [functions.spelled(each) for each in closure if each not in currents and each != lower],
        "not_implemented": [functions.spelled(each) for each in closure if each not in implemented],
        "dependants": sorted(each["name"] for each in edges.documents),
        "more_dependants": bool(edges.next_page_token),
        "state": state,
        "run": runs.get(record["current"]) or next((run for run in runs.values() if run), None),
        "acceptance": acceptance,
        "needs_fixing": acceptance is not None and not acceptance["success"],
        "stage": _stage(lower, record, is_run=None not in runs.values()),
        "batch": (documents.get_many([_batch_key(lower)])[_batch_key(lower)] or {}).get("batch"),
    }


@app.http("GET", "/functions/{name}/runs")
def list_runs(request: Request, name: str) -> Json:
    """Return a page of a function's runs, without those of drafts: one for each version and state of its inputs."""
    if not NAME.fullmatch(name):
        raise NotFound(f"There is no function {name}.")
    found = documents.query(
        ("run_of", "==", name.lower()), limit=PAGE_SIZE, page_token=request.query.get("page_token", "")
    )
    return {"runs": found.documents, "next_page_token": found.next_page_token}


# --- drafts ---


@app.task
def run_draft(name: str, author: str) -> None:
    """Run a draft with the published tests and its own."""
    draft = documents.get_many([_draft_key(name, author)])[_draft_key(name, author)]
    if draft is not None:
        inputs = draft_inputs(Functions(), name, draft)
        last = {"type": "SocialDraftRun", "draft": _draft_digest(draft), "run_id": inputs["run_id"]}
        documents.put(_draft_run_key(name, author), last)
        start_runs(f"social-draft-{inputs['run_id']}", [inputs], draft_tested.call())


# --- a function's versions or votes have changed ---


@app.task
def changed(name: str) -> None:
    """Have the current implementation chosen, once for all changes of a function that follow each other quickly."""
    critical_section(f"social-code-{name}").run(
        begin.call(name=name), debounce_seconds=DEBOUNCE_SECONDS, debounce_max_seconds=DEBOUNCE_SECONDS_MAX
    )


@app.task
def begin(name: str) -> None:
    """Count the votes, and start a flow for this state of the versions."""
    standings("social_author").declare()
    votes = {each["id"]: votes_for(each["id"]) for each in documents.get(function_key(name))["versions"]}

    def commit(t: Transaction) -> int:
        before = t.get(function_key(name)) or new_record(name)
        after = with_votes(before, votes)
        if after is not before:
            t.put(function_key(name), after)
        return int(after["changes"])

    publishing.start(f"{name}~{transaction(commit)}", name=name)


@app.flow
async def publishing(name: str) -> str:
    """From published versions to the current one: tests, acceptance by dependants, choice."""
    run = flow.context().id
    flow.progress("tests")
    if await run_candidates.call(name=name, run=run):
        await flow.event("tested")
    flow.progress("acceptance")
    if await run_acceptance.call(name=name, run=run):
        await flow.event("accepted")
    flow.progress("choice")
    current = await choose.call(name=name)
    flow.progress("")
    return current


@app.task
def run_candidates(name: str, run: str) -> bool:
    """Run the tests with each implementation, and the function's acceptance tests. Return whether a run is awaited."""
    return start_stage(run, "tested", list(Functions().runs(name)))


@app.task
def run_acceptance(name: str, run: str) -> bool:
    """Run the dependants' acceptance tests with the implementation to come. Return whether a run is awaited."""
    functions = Functions()
    best = best_of(name, functions)
    inputs = list(acceptance_with(name, best, functions).values()) if best else []
    return start_stage(run, "accepted", inputs)


@app.task
def choose(name: str) -> str:
    """Make the best implementation the current one, and note whose acceptance tests fail with it."""
    functions = Functions()
    best = best_of(name, functions)
    runs = runs_of(acceptance_with(name, best, functions)) if best else {}
    breaks = sorted(functions.spelled(each) for each, run in runs.items() if run and not run["success"])
    return switch(name, functions, best, breaks, 0)


def switch(name: str, functions: Functions, best: str, breaks: list[str], rounds: int) -> str:
    """Store the choice, and enqueue the tests of dependants, in one commit. Return the current implementation."""
    changes = functions.record(name)["changes"]

    def commit(t: Transaction) -> str:
        before = t.get(function_key(name))
        if before is None or not best or before["changes"] != changes:  # the flow of the later change chooses
            return "" if before is None else str(before["current"])
        after = with_current(before, best, breaks)
        if after != before:
            t.put(function_key(name), after)
        if after["current"] != before["current"]:
            t.enqueue(switched.call(name=name, rounds=rounds + 1))
        return best

    return transaction(commit)


# --- the current implementation has changed ---


@app.task
def switched(name: str, rounds: int) -> None:
    """Have the tests of all dependants run, once for changes during a run."""
    critical_section(f"social-spread-{name}").run(spread.call(name=name, rounds=rounds))


@app.task
def spread(name: str, rounds: int) -> None:
    """Run the tests of a function and of all that depends on it, each once, as the units of a batch."""
    functions = Functions()
    names = dependants(name, functions)
    missing = not_run([inputs for each in names for inputs in functions.runs(each)])
    undecided = [each for each in names if is_undecided(functions.record(each))]
    batch_id = f"social-{name}-{functions.record(name)['changes']}-{rounds}-{_ids(missing)}"
    documents.put(_batch_key(name), {"type": "SocialBatch", "batch": batch_id, "undecided": undecided})
    start_runs(batch_id, missing, dependants_tested.call(name=name, rounds=rounds))


@app.task
def draft_tested(completion: Completion) -> None:
    keep_runs(completion)


@app.task
def stage_tested(completion: Completion, run: str, event: str) -> None:
    """Keep the runs and continue the flow."""
    keep_runs(completion)
    flows("publishing", run).event(event, id=completion.id)


@app.task
def dependants_tested(completion: Completion, name: str, rounds: int) -> None:
    """Keep the runs and choose for the dependants again."""
    keep_runs(completion)
    settle(documents.get(_batch_key(name))["undecided"], rounds)


def settle(names: Iterable[str], rounds: int) -> None:
    """Choose the current implementation of functions whose imports have changed."""
    functions = Functions()
    for name in names:
        best = best_of(name, functions)
        if best != functions.record(name)["current"] and rounds < ROUNDS_MAX:
            switch(name, functions, best, [], rounds)


# --- runs ---


def start_runs(batch_id: str, inputs: Sequence[Json], then: Call[Any]) -> None:
    """Run inputs in the sandbox, as the units of a batch. Those of a hub share tasks: a run takes milliseconds."""
    calls = [run_all.call(**{name: [value] for name, value in each.items()}) for each in inputs]
    batch(batch_id).populate(calls, on_complete=then, per_task=RUNS_A_TASK if len(calls) > RUNS_A_TASK else None)


@app.task
def run_all(
    units: list[Unit], sources: list[list[Json]], tests: list[str], name: list[str], run_id: list[str]
) -> list[Json]:
    """Run the inputs of units in the sandbox, which keeps nothing. A repeated run has the same result."""
    del units
    runs = [{"sources": each, "tests": test} for each, test in zip(sources, tests, strict=True)]
    results = invoke("social_sandbox", "/runs", {"runs": runs}, timeout_seconds=SANDBOX_SECONDS_MAX)["results"]
    return [{**result_of(answer), "name": n, "run_id": i} for n, i, answer in zip(name, run_id, results, strict=True)]


def result_of(answer: Any) -> Json:
    """Return the result of a run from the sandbox's answer, which is input: code of strangers may have written it.

    Only these four members are taken, each of its type and with a bound, so an answer cannot choose what is stored.
    Halves of characters, which cannot be stored, are replaced: they would keep the other runs from being stored.
    """
    match answer:
        case {"success": bool(success), "message": str(message), "logs": str(logs), "checks": int(checks)}:
            texts = {"message": _storable(message[:MESSAGE_LENGTH_MAX]), "logs": _storable(logs[:LOGS_LENGTH_MAX])}
            return {"success": success, **texts, "checks": min(max(int(checks), 0), CHECKS_MAX)}
    return {"success": False, "message": "the sandbox's answer is not a result", "logs": "", "checks": 0}


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def start_stage(run: str, event: str, inputs: Sequence[Json]) -> bool:
    """Start the runs of a flow's stage that are not kept yet. Return whether the flow must wait for them."""
    missing = not_run(inputs)
    if missing:
        start_runs(f"social-{run}-{event}-{_ids(missing)}", missing, stage_tested.call(run=run, event=event))
    return bool(missing)


def keep_runs(completion: Completion) -> None:
    """Store each run of a batch: its success, message and logs."""
    results = [unit["result"] for unit in batch(completion.id).results("succeeded")]
    for start in range(0, len(results), DOCUMENTS_AT_ONCE):
        some = results[start : start + DOCUMENTS_AT_ONCE]
        runs = [{**run, "key": run_key(run["run_id"]), "type": "SocialRun", "run_of": run["name"]} for run in some]
        for outcome in documents.put_many(runs):
            if isinstance(outcome, Exception):
                raise outcome


def votes_for(version_id: str) -> int:
    """Return the sum of a version's votes, from the votes themselves: their standing follows a moment later."""
    total, token = 0, ""
    while True:
        found, next_token = yokes.find(item=_item(version_id), limit=YOKES_AT_ONCE, page_token=token)
        total += sum(int(each["value"]) for each in found)
        if not next_token:
            return total
        token = next_token


# --- what is shown ---


def state_of(run: Json | None) -> str:
    return "pending" if run is None else "passed" if run["success"] else "failed"


def _state_of_function(record: Json, runs: dict[str, Json | None]) -> str:
    if record["current"] in runs:
        return state_of(runs[record["current"]])
    return "pending" if None in runs.values() else "failed"


def _stage(name: str, record: Json, *, is_run: bool) -> str:
    """Return the progress of the last change's flow, or an empty text if it has ended."""
    try:
        return str(flows("publishing", f"{name}~{record['changes']}").status().progress or "")
    except NotFound:  # it has not started, or ended long ago and was deleted
        return "" if is_run else "waiting"


def _ids(inputs: Sequence[Json]) -> str:
    return digest([each["run_id"] for each in inputs])


def _draft_key(name: str, author: str) -> str:
    return f"social-draft~{name.lower()}~{author}"


def _draft_run_key(name: str, author: str) -> str:
    return f"social-draft-run~{name.lower()}~{author}"


def _draft_digest(draft: Json) -> str:
    return digest([draft[kind] for kind in KINDS])


def _batch_key(name: str) -> str:
    return f"social-batch~{name}"


def _item(version_id: str) -> str:
    return f"social-{version_id}"


social_code = app.entry_point()
