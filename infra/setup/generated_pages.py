"""The tables of pages that are made from the code: calls from openapi.yaml, problems and limits from shared/core.

`make docs` writes them between the markers ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->`` of a page, and
tests/unit/docs/ fails while a page differs from what the code generates.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.deploy.refusal_table import TABLE as REFUSALS
from shared.core.rules import limits, problems
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem

PROJECT = Path(__file__).parents[2]
METHODS = ("put", "patch", "get", "delete", "post")
OF_EVERY_CALL = ("401", "403", "405", "414")
"""Refusals before a call is known: by the platform, or for a method that the address does not have."""

Json = Mapping[str, Any]


def calls() -> str:
    """Return the table of all calls for people, a row each, in the order of openapi.yaml."""
    api = yaml.safe_load((PROJECT / "openapi.yaml").read_text("utf-8"))
    paths = api["paths"].items()
    rows = [_call(api, path, method, item) for path, item in paths for method in METHODS if method in item]
    return _table(("call", "what it does", "query", "body", "success", "problems"), rows)


def _call(api: Json, path: str, method: str, item: Json) -> tuple[str, ...]:
    call = item[method]
    parameters = [_resolved(api, each) for each in (*item.get("parameters", ()), *call.get("parameters", ()))]
    query = (_optional(each["name"], bool(each.get("required"))) for each in parameters if each["in"] == "query")
    good = [status for status in call["responses"] if status < "400"]
    bad = [status for status in call["responses"] if status >= "400" and status not in OF_EVERY_CALL]
    return (
        f"`{method.upper()} {path}`",
        call["summary"],
        ", ".join(f"`{each}`" for each in query),
        _body(api, call),
        ", ".join(good),
        ", ".join(bad),
    )


def _body(api: Json, call: Json) -> str:
    if "requestBody" not in call:
        return ""
    schema = call["requestBody"]["content"]["application/json"]["schema"]
    return " or ".join(dict.fromkeys(_shapes(api, schema)))


def _shapes(api: Json, schema: Json) -> Iterator[str]:
    """Iterate the alternatives of a body, each as its fields or its JSON type."""
    schema = _resolved(api, schema)
    alternatives = schema.get("oneOf") or schema.get("anyOf") or []
    for each in alternatives:
        yield from _shapes(api, each)
    if not alternatives:
        properties, required = _fields(api, schema)
        kind = {"array": "an array", "object": "a JSON object"}.get(schema.get("type", ""), "any JSON")
        yield f"`{{{', '.join(_optional(name, name in required) for name in properties)}}}`" if properties else kind


def _fields(api: Json, schema: Json) -> tuple[list[str], set[str]]:
    """Return the names of an object's properties and those that are required, also through `allOf`."""
    properties, required = list(schema.get("properties", {})), set(schema.get("required", ()))
    for part in schema.get("allOf", ()):
        more, musts = _fields(api, _resolved(api, part))
        properties, required = [*properties, *more], required | musts
    return properties, required


def _resolved(api: Json, schema: Json) -> Json:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Any = api
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return _resolved(api, found)


def _optional(name: str, required: bool) -> str:
    return name if required else f"{name}?"


def problem_types() -> str:
    """Return the table of all problems: the last part of `type`, the status, the title."""
    kinds = [each for each in vars(problems).values() if isinstance(each, type) and issubclass(each, Problem)]
    rows = [(f"`{each.slug()}`", str(each.status), each.title) for each in kinds if each is not Problem]
    return _table(("type", "status", "title"), sorted(rows))


def limit_values() -> str:
    """Return the table of all limits with their values and reasons."""
    tree = ast.parse(Path(limits.__file__).read_text("utf-8"))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Limits"]
    reasons: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = after.value if isinstance(after, ast.Expr) else None
            reasons[node.target.id] = " ".join(str(said.value).split()) if isinstance(said, ast.Constant) else ""
    rows = [(f"`{name}`", f"{getattr(LIMITS, name):,}", reason) for name, reason in reasons.items()]
    return _table(("limit", "value", "reason"), rows)


def refusals() -> str:
    """Return the table of Google's refusals: what each means, the waits before another try, what to do otherwise."""
    rows = [(each.name, each.meaning, ", ".join(f"{wait:g}" for wait in each.waits), each.remedy) for each in REFUSALS]
    return _table(("refusal", "it means", "seconds to wait", "to do otherwise"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "calls": ("docs/http.md", calls),
    "problems": ("docs/http.md", problem_types),
    "refusals": ("infra/README.md", refusals),
    "limits": ("docs/limits-and-cost.md", limit_values),
}
"""Each table's page and what makes it."""


def page_with(text: str, name: str, table: str) -> str:
    """Return a page's text with the named table replaced. Raises `ValueError` if the page has no markers for it."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers for the table {name!r}")
    return pattern.sub(lambda _: f"{begin}\n\n{table}\n\n{end}", text)


def main() -> None:
    for name, (page, make) in TABLES.items():
        path = PROJECT / page
        path.write_text(page_with(path.read_text("utf-8"), name, make()), "utf-8")
        sys.stdout.write(f"{page}: {name}\n")


if __name__ == "__main__":
    main()
