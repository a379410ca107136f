"""Members of answers that the console's pages and the command line read are members that openapi.yaml has."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[3]
DESCRIPTION: dict[str, Any] = read_yaml(ROOT / "openapi.yaml")
TOOLS = ROOT / "shared" / "signalbox_tools"
PAGES = sorted((TOOLS / "console" / "page").glob("*.js"))


# --- members of answers ---


def members_of(segments: Iterable[str]) -> set[str]:
    """Return the members of all answers of paths that have one of these segments, also of objects within."""
    wanted, found = set(segments), set()
    for path, item in DESCRIPTION["paths"].items():
        if wanted & set(path.split("/")):
            for call in (call for method, call in item.items() if method != "parameters"):
                found |= set(_members(call["responses"], frozenset()))
    return found


def _members(part: Any, seen: frozenset[str]) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _members(each, seen)
    if not isinstance(part, dict):
        return
    reference = part.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        yield from _members(_at(reference), seen | {reference})
    if isinstance(part.get("properties"), dict):
        yield from part["properties"]
    for each in part.values():
        yield from _members(each, seen)


def _at(reference: str) -> Any:
    found = DESCRIPTION
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


SEGMENTS = {part for path in DESCRIPTION["paths"] for part in path.split("/") if part and not part.startswith("{")}


def test_members_are_found_through_references_and_lists() -> None:
    assert {"semaphores", "leases", "ends_at", "task", "function"} <= members_of(["semaphores"])
    assert "per_minute" not in members_of(["semaphores"])


def parameters_of(segments: Iterable[str]) -> set[str]:
    """Return the query parameters of all calls of paths that have one of these segments."""
    wanted = set(segments)
    return {
        (_at(each["$ref"]) if "$ref" in each else each)["name"]
        for path, item in DESCRIPTION["paths"].items()
        if wanted & set(path.split("/"))
        for call in item.values()
        if isinstance(call, dict)
        for each in call.get("parameters", ())
    }


# --- the console ---

TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|"""
    r"""(?<=[(,=:])\s*/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n\[])+/[a-z]*""",
    re.DOTALL,
)
READ = re.compile(r"\.([a-z]\w*)\b(?!\s*\()")
PATTERN = re.compile(r"\{([^{}()]*)\}\s*(?:=(?!=)|\)\s*(?:=>|\{)|,[^(){}]*\)\s*(?:=>|\{))")
NAME = re.compile(r"\s*([a-z]\w*)")


def names_read(text: str) -> set[str]:
    """Return the properties that a script reads or takes apart; a name in camelCase is none of an answer."""
    code = TEXT.sub('""', text)
    taken = {match[1] for found in PATTERN.findall(code) for part in found.split(",") if (match := NAME.match(part))}
    return {name for name in {*READ.findall(code), *taken} if name == name.lower()}


def segments_of(text: str) -> set[str]:
    """Return the segments of addresses that a script has in its texts."""
    texts = re.findall(r'"([^"\n]*)"|`([^`]*)`', text)
    return {part for pair in texts for each in pair for part in re.split(r"[/?]", each)} & SEGMENTS


NO_ANSWERS = {"api.js", "dom.js", "graph.js", "main.js", "map.js", "queues.js", "traces.js"}
"""Scripts that read no answer of the API, but those of the console's own server, or none."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OF_SCRIPTS = names(
    "about body called content dataset disabled done error fields has_minutes has_status has_traces here hidden items "
    "last length message method number parts query rows text values visit width x"
)
"""Properties of the browser's objects, and of values that several pages pass to each other."""

OF_PAGES: Mapping[str, frozenset[str]] = {
    "actions.js": names(
        "action actions all answers count effect elements etag given key name names on_all path previewed previews "
        "ready runs seen stopped value warning"
    ),
    "batches.js": names("counts ended live source stream this"),
    "documents.js": names("edges id inside linking links new prefix"),
    "failures.js": names("project"),
    "flows.js": names("from log misspelt more order page started wanted"),
    "objects.js": names("class_ function"),
    "overview.js": names("act bad first functions gcloud lines requests well"),
    "semaphores.js": names("edges from new rates_token to"),
    "standings.js": names("counted"),
    "timeline.js": names("from of parse row span to wait waits"),
}
"""Other properties that are no members of an answer: of values that a page makes itself."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NO_ANSWERS], ids=lambda page: page.name)
def test_a_page_reads_only_members_of_the_answers_that_it_asks_for(page: Path) -> None:
    assert unknown(page.name, page.read_text("utf-8")) == []


def test_a_misspelt_member_and_one_of_another_answer_are_noticed() -> None:
    assert unknown("a.js", 'get("/rates").then(({ per_minutes }) => per_minutes)') == ["per_minutes"]
    assert unknown("a.js", 'const shown = await get("/rates"); shown.lease_seconds') == ["lease_seconds"]


def test_the_lists_have_no_name_that_no_script_reads() -> None:
    read = {page.name: names_read(page.read_text("utf-8")) for page in PAGES if page.name not in NO_ANSWERS}
    assert [name for name, made in OF_PAGES.items() if made - read[name]] == []
    assert OF_SCRIPTS - set().union(*read.values()) == set()


ASKED = {"actions.js": {"retry"}}
"""Segments of addresses that a script has from the console's own server."""


def unknown(name: str, text: str) -> list[str]:
    segments = segments_of(text) | ASKED.get(name, set())
    known = members_of(segments) | parameters_of(segments) | OF_SCRIPTS | OF_PAGES.get(name, frozenset())
    return sorted(names_read(text) - known)


# --- the command line ---

ROWS = {"runs": "flows", "units": "batches"}
"""The segments of rows that are in a variable."""

READERS: Mapping[str, tuple[str, ...]] = {
    "status/failures.py": ("failures",),
    "status/flow_drawing.py": ("flows",),
    "status/show_flow.py": ("flows",),
}
"""Modules that only read answers, with the segments of their addresses."""


def test_the_columns_of_the_command_line_are_members_of_the_answers() -> None:
    columns: dict[str, set[str]] = {}
    for path in (TOOLS / "cli").glob("*.py"):
        for segment, found in columns_of(path):
            columns[segment] = columns.get(segment, set()) | found
    assert columns.keys() == {"batches", "failures", "flows", "objects", "rates", "semaphores"}
    assert [segment for segment, found in columns.items() if found - members_of([segment])] == []


def columns_of(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Iterate over the tables that a module prints: the segment of the address, and the columns."""
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef):
            assigned = {
                target.id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "show_each":
                    rows, columns = call.args
                    columns = assigned[columns.id] if isinstance(columns, ast.Name) else columns
                    if found := {str(part.value) for part in ast.walk(columns) if isinstance(part, ast.Constant)}:
                        subject = re.match(r"client\.(\w+)[.(]", ast.unparse(rows))
                        yield (subject[1] if subject else ROWS[ast.unparse(rows)]), found


@pytest.mark.parametrize("module", READERS)
def test_a_module_that_draws_answers_reads_only_members_of_them(module: str) -> None:
    read = set(keys_read(TOOLS / module))
    assert read
    assert read - members_of(READERS[module]) == set()


def keys_read(path: Path) -> Iterator[str]:
    """Iterate over the constant keys that a module reads, by `[]` and by `get`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
                yield name
