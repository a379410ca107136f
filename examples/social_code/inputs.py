"""The inputs of runs: code with all its imports, and tests; and the runs that are kept for them.

A run's key has a hash of its inputs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from signalbox import documents
from versions import Json, chosen, counted, digest, imported, new_record, version

SOURCES_MAX = 100
"""The most sources of a run: the limit of the sandbox."""

INPUTS_BYTES_MAX = 90_000
"""Bytes of a run's inputs as JSON: they are the arguments of one task."""

INPUTS_TOO_LONG = f"check(False, 'it has more than {SOURCES_MAX} parts or {INPUTS_BYTES_MAX:,} bytes with its imports')"

PAGE_SIZE = 200
DOCUMENTS_AT_ONCE = 500


@dataclass(slots=True)
class Functions:
    """The functions' records by their names in lower case, each read at most once."""

    found: dict[str, Json | None] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    """Code by its function's name, in place of the current implementation."""

    def with_code(self, name: str, code: str) -> "Functions":
        """Return the same functions with other code for one of them."""
        return replace(self, instead={**self.instead, name: code})

    def get(self, name: str) -> Json | None:
        """Return a function's record, or None if it does not exist."""
        self.read([name])
        return self.found[name]

    def record(self, name: str) -> Json:
        """Return a function's record, without versions if it does not exist."""
        return self.get(name) or new_record(name)

    def spelled(self, name: str) -> str:
        return str(self.record(name)["name"])

    def read(self, names: Iterable[str]) -> None:
        """Read the records that were not read yet, together."""
        unread = {function_key(name): name for name in names if name not in self.found}
        if unread:
            for key, document in documents.get_many(list(unread)).items():
                self.found[unread[key]] = document

    def closure(self, names: Iterable[str]) -> list[str]:
        """Return functions and all that they import, directly or not: each once, imports first, except in a cycle."""
        ordered: list[str] = []
        first = list(dict.fromkeys(names))
        seen, pending = set(first), [(name, False) for name in reversed(first)]
        while pending:
            current, is_done = pending.pop()
            if is_done:
                ordered.append(current)
                continue
            pending.append((current, True))
            imports = self._imports(current)
            self.read(imports)
            new = [each for each in imports if each not in seen]
            seen.update(new)
            pending += [(each, False) for each in reversed(new)]
        return ordered

    def candidates(self, name: str) -> dict[str, Json]:
        """Return the inputs of the tests with each implementation that counts, by its id."""
        tests = tests_of(self.record(name))
        return {
            each["id"]: self.with_code(name, each["text"]).inputs(name, f"{name}~{each['id']}", [name], tests)
            for each in counted(self.record(name), "code")
        }

    def current(self, name: str) -> Json | None:
        """Return the inputs of the tests with the current implementation, or None if there is none."""
        record = self.record(name)
        if not record["current"]:
            return None
        return self.inputs(name, f"{name}~{record['current']}", [name], tests_of(record))

    def acceptance(self, name: str) -> Json | None:
        """Return the inputs of a function's acceptance tests: they run with its imports, and without itself."""
        texts = [each["text"] for each in counted(self.record(name), "acceptance")]
        if not texts:
            return None
        tests = [{"name": f"the acceptance tests of {self.spelled(name)}", "code": text} for text in texts]
        return self.inputs(name, f"{name}~acceptance", self.accepts(name), tests)

    def accepts(self, name: str) -> list[str]:
        """Return the functions that a function's acceptance tests import."""
        texts = (each["text"] for each in counted(self.record(name), "acceptance"))
        return list(dict.fromkeys(each for text in texts for each in imported(text, name)))

    def runs(self, name: str) -> Iterator[Json]:
        """Yield the inputs of all runs of a function."""
        yield from self.candidates(name).values()
        accepted = self.acceptance(name)
        if accepted:
            yield accepted

    def inputs(self, name: str, run: str, imports: Iterable[str], tests: Sequence[Json]) -> Json:
        """Return the arguments of a run: the code of functions and of all that they import, and tests."""
        code = [(each, self._code(each)) for each in self.closure(imports)]
        sources = [{"name": self.spelled(each), "code": text} for each, text in code if text] + list(tests)
        run_id = f"{run}~{digest(sources)}"
        inputs = {"run_id": run_id, "name": name, "sources": sources, "tests": ""}
        if len(sources) > SOURCES_MAX or len(json.dumps(inputs)) > INPUTS_BYTES_MAX:
            return {**inputs, "sources": [], "tests": INPUTS_TOO_LONG}
        return inputs

    def _code(self, name: str) -> str:
        return self.instead[name] if name in self.instead else str(self.record(name)["code"])

    def _imports(self, name: str) -> list[str]:
        if name in self.instead:
            return imported(self.instead[name], name)
        return list(self.record(name)["imports"])


def importers(name: str) -> list[Json]:
    """Return the functions with a version that directly imports this one."""
    page = documents.query(("social_imports", "contains", name), limit=PAGE_SIZE)
    found = list(page.documents)
    while page.next_page_token:
        page = documents.query(("social_imports", "contains", name), limit=PAGE_SIZE, page_token=page.next_page_token)
        found += page.documents
    return found


def dependants(name: str, functions: Functions) -> list[str]:
    """Return a function and all that depends on it, directly or not: each once, also in cycles."""
    reached, pending = {name}, [name]
    while pending:
        for each in importers(pending.pop()):
            lower = each["name"].lower()
            functions.found.setdefault(lower, each)
            if lower not in reached:
                reached.add(lower)
                pending.append(lower)
    return sorted(reached)


# --- runs ---


def not_run(inputs: Sequence[Json]) -> list[Json]:
    """Return the inputs of which no run is kept yet."""
    runs = runs_of({each["run_id"]: each for each in inputs})
    return [each for each in inputs if runs[each["run_id"]] is None]


def runs_of(inputs: dict[str, Json]) -> dict[str, Json | None]:
    """Return the kept runs by the keys of their inputs. The value is None if there is none yet."""
    keys = {key: run_key(each["run_id"]) for key, each in inputs.items()}
    found: dict[str, Json | None] = {}
    ordered = list(keys.values())
    for start in range(0, len(ordered), DOCUMENTS_AT_ONCE):
        found |= documents.get_many(ordered[start : start + DOCUMENTS_AT_ONCE])
    return {key: found[stored] for key, stored in keys.items()}


def best_of(name: str, functions: Functions) -> str:
    """Return the implementation that should be current, by the runs that are kept, or an empty text if there is
    none."""
    runs = runs_of(functions.candidates(name))
    return chosen(functions.record(name), {each: bool(run and run["success"]) for each, run in runs.items()})


def draft_inputs(functions: Functions, name: str, draft: Json) -> Json:
    """Return the inputs of a draft's run. Without code, its tests run with the current implementation."""
    record = functions.get(name) or new_record(draft["name"])
    tests = [*tests_of(record), {"name": "the draft's tests", "code": draft["tests"]}]
    with_draft = functions.with_code(name, draft["code"] or record["code"])
    return with_draft.inputs(f"{name}~draft", f"{name}~{draft['social_draft_of']}", [name], tests)


def acceptance_with(name: str, best: str, functions: Functions) -> dict[str, Json]:
    """Return the inputs of the acceptance tests of the direct dependants, with an implementation of their import."""
    trial = functions.with_code(name, version(functions.record(name), best)["text"])
    found = {each["name"].lower(): each for each in importers(name)}
    functions.found |= found
    return {each: inputs for each in found if (inputs := trial.acceptance(each)) and name in trial.accepts(each)}


def tests_of(record: Json) -> list[Json]:
    return [
        {"name": f"tests {each['number']} of {each['author']}", "code": each["text"]}
        for each in counted(record, "tests")
    ]


def function_key(name: str) -> str:
    return f"social-function~{name.lower()}"


def run_key(run_id: str) -> str:
    return f"social-run~{run_id}"
