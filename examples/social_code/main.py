"""Social Code: functions with tests that import each other. Every save runs the tests of what depends on it.

    PUT  {base}social-code/functions/Add {"code": "def Add(a, b): …", "tests": "check(Add(1, 2) == 3)"}    202
    GET  {base}social-code/functions/Add           its code, imports, dependants, and the run of its tests
    GET  {base}social-code/functions/Add/runs      all runs of its tests
    GET  {base}social-code                         the page

Code imports a function by `{{Name}}`, in a comment. A run's inputs are the code of all imports, in order, and the
tests. Its record has a hash of the inputs in its key, and the sandbox is deterministic. So a run that is repeated
writes the same record again, and a late run of old code cannot replace the result of new code.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from signalbox import (
    Call,
    Completion,
    Function,
    NotFound,
    Problem,
    Request,
    Response,
    Transaction,
    batch,
    critical_section,
    documents,
    transaction,
)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
IMPORT = re.compile(r"\{\{\s*([A-Za-z][A-Za-z0-9_]{0,79})\s*\}\}")
SOURCE_LENGTH_MAX = 10_000
IMPORTS_MAX = 50
INPUTS_BYTES_MAX = 90_000
"""Of a run, as JSON: its inputs are the arguments of one task."""

INPUTS_TOO_LONG = f"check(False, 'with its imports it is longer than {INPUTS_BYTES_MAX:,} bytes')"
DEBOUNCE_SECONDS = 1
DEBOUNCE_SECONDS_MAX = 10
PAGE_SIZE = 200
DOCUMENTS_AT_ONCE = 500
PAGE = (Path(__file__).parent / "page.html").read_bytes()

app = Function("social_code")


class BadFunction(Problem):
    title = "The function cannot be saved"


class NameTaken(Problem):
    status = 409
    title = "A name is unique regardless of case"


@app.http("GET")
def page(_: Request) -> Response:
    return Response(200, PAGE, {"Content-Type": "text/html; charset=utf-8"})


@app.http("GET", "/functions")
def list_functions(request: Request) -> dict[str, Any]:
    """Return a page of the functions' names."""
    found = documents.query(
        ("type", "==", "SocialFunction"), limit=PAGE_SIZE, page_token=request.query.get("page_token", "")
    )
    return {"functions": [each["name"] for each in found.documents], "next_page_token": found.next_page_token}


@app.http("PUT", "/functions/{name}")
def save(request: Request, name: str) -> Response:
    """Store a function and enqueue the tests of all that depends on it, in one commit."""
    body = request.json_object()
    sources = {"code": body.get("code"), "tests": body.get("tests", "")}
    if not NAME.fullmatch(name):
        raise BadFunction("A name is a letter, then up to 79 letters, digits and underscores.", field="name")
    for what, text in sources.items():
        if not isinstance(text, str) or len(text) > SOURCE_LENGTH_MAX:
            raise BadFunction(f"`{what}` is a text of at most {SOURCE_LENGTH_MAX:,} characters.", field=what)
    imports = imported(str(sources["code"]), name)
    if len(imports) > IMPORTS_MAX:
        raise BadFunction(f"A function imports at most {IMPORTS_MAX} others.", field="code")

    def commit(t: Transaction) -> None:
        found = t.get(_key(name))
        if found is not None and found["name"] != name:
            raise NameTaken(f"There is {found['name']}: use that spelling, or another name.", field="name")
        t.put(_key(name), {"type": "SocialFunction", "name": name, **sources, "social_imports": imports})
        t.enqueue(changed.call(name=name.lower()))

    transaction(commit)
    return Response(202, {"name": name, "imports": imports})


@app.http("DELETE", "/functions/{name}")
def remove(_: Request, name: str) -> Response:
    """Delete a function. The tests of what imports it run without it. Its runs are kept."""

    def commit(t: Transaction) -> None:
        if t.get(_key(name)) is None:
            raise NotFound(f"There is no function {name}.")
        t.delete(_key(name))
        t.enqueue(changed.call(name=name.lower()))

    transaction(commit)
    return Response(202, {"name": name})


@app.http("GET", "/functions/{name}")
def show(_: Request, name: str) -> dict[str, Any]:
    """Return a function with the run of its present inputs: `state` is passed, failed or pending."""
    lower, functions = name.lower(), Functions()
    found = functions.get(lower)
    if found is None:
        raise NotFound(f"There is no function {name}.")
    run_key, batch_key = f"social-run~{functions.inputs(lower)['run_id']}", f"social-batch~{lower}"
    read = documents.get_many([run_key, batch_key])
    run, started = read[run_key], read[batch_key]
    return {
        **{what: found[what] for what in ("name", "code", "tests")},
        "imports": [(functions.get(each) or {"name": each})["name"] for each in found["social_imports"]],
        "missing": [each for each in functions.closure(lower) if functions.get(each) is None],
        "dependants": sorted(each["name"] for each in importers(lower)),
        "state": "pending" if run is None else "passed" if run["success"] else "failed",
        "run": run,
        "batch": started and started["batch"],
    }


@app.http("GET", "/functions/{name}/runs")
def list_runs(request: Request, name: str) -> dict[str, Any]:
    """Return a page of a function's runs: one for each state of its inputs."""
    found = documents.query(
        ("run_of", "==", name.lower()), limit=PAGE_SIZE, page_token=request.query.get("page_token", "")
    )
    return {"runs": found.documents, "next_page_token": found.next_page_token}


@app.task
def changed(name: str) -> None:
    """Have the tests run, once for all saves of a function that follow each other quickly."""
    critical_section(f"social-code-{name}").run(
        run_tests.call(name=name), debounce_seconds=DEBOUNCE_SECONDS, debounce_max_seconds=DEBOUNCE_SECONDS_MAX
    )


@app.task
def run_tests(name: str) -> None:
    """Run the tests of a function and of all that depends on it, each once, as the units of a batch."""
    functions = Functions()
    inputs = [functions.inputs(each) for each in dependants(name, functions)]
    batch_id = f"social-{name}-{_digest(inputs)}"
    calls: list[Call[Any]] = [Call(function="social_sandbox", task="run", payload=each) for each in inputs]
    batch(batch_id).populate(calls, on_complete=tested.call())
    documents.put(f"social-batch~{name}", {"type": "SocialBatch", "batch": batch_id})


@app.task
def tested(completion: Completion) -> None:
    """Keep each run: its success, message and logs."""
    results = [unit["result"] for unit in batch(completion.id).results("succeeded")]
    runs = [
        {"key": f"social-run~{each['run_id']}", "type": "SocialRun", "run_of": each["name"], **each} for each in results
    ]
    for start in range(0, len(runs), DOCUMENTS_AT_ONCE):
        for outcome in documents.put_many(runs[start : start + DOCUMENTS_AT_ONCE]):
            if isinstance(outcome, Exception):
                raise outcome


@dataclass(slots=True)
class Functions:
    """The functions by their names in lower case, each read at most once."""

    found: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a function, or None if it does not exist."""
        self.read([name])
        return self.found[name]

    def read(self, names: Iterable[str]) -> None:
        """Read the functions that were not read yet, together."""
        unread = {_key(name): name for name in names if name not in self.found}
        if unread:
            for key, document in documents.get_many(list(unread)).items():
                self.found[unread[key]] = document

    def closure(self, name: str) -> list[str]:
        """Return a function and all that it imports, directly or not: each once, imports first, except in a cycle."""
        ordered: list[str] = []
        seen, pending = {name}, [(name, False)]
        while pending:
            current, is_done = pending.pop()
            if is_done:
                ordered.append(current)
                continue
            pending.append((current, True))
            found = self.get(current)
            imports = found["social_imports"] if found else []
            self.read(imports)
            new = [each for each in imports if each not in seen]
            seen.update(new)
            pending += [(each, False) for each in reversed(new)]
        return ordered

    def inputs(self, name: str) -> dict[str, Any]:
        """Return the arguments of a function's run."""
        present = [found for each in self.closure(name) if (found := self.get(each)) is not None]
        sources = [{"name": found["name"], "code": found["code"]} for found in present]
        inputs = {"name": name, "sources": sources, "tests": present[-1]["tests"]}
        run_id = f"{name}~{_digest(inputs)}"
        if len(json.dumps(inputs)) > INPUTS_BYTES_MAX:
            inputs = {"name": name, "sources": [], "tests": INPUTS_TOO_LONG}
        return {"run_id": run_id, **inputs}


def imported(code: str, name: str) -> list[str]:
    """Return the names that code imports, in lower case, each once; a function does not import itself."""
    found = dict.fromkeys(match.lower() for match in IMPORT.findall(code))
    return [each for each in found if each != name.lower()]


def importers(name: str) -> list[dict[str, Any]]:
    """Return the functions that import one directly."""
    found: list[dict[str, Any]] = []
    page = documents.query(("social_imports", "contains", name), limit=PAGE_SIZE)
    found += page.documents
    while page.next_page_token:
        page = documents.query(("social_imports", "contains", name), limit=PAGE_SIZE, page_token=page.next_page_token)
        found += page.documents
    return found


def dependants(name: str, functions: Functions) -> list[str]:
    """Return a function, if it exists, and all that depends on it, directly or not: each once, also in cycles."""
    reached, pending = {name}, [name]
    while pending:
        for each in importers(pending.pop()):
            lower = each["name"].lower()
            functions.found.setdefault(lower, each)
            if lower not in reached:
                reached.add(lower)
                pending.append(lower)
    return sorted(each for each in reached if functions.get(each) is not None)


def _key(name: str) -> str:
    return f"social-function~{name.lower()}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


social_code = app.entry_point()
