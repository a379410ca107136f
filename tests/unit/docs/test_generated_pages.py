"""The tables made from openapi.yaml: bodies are read through references, `allOf` and alternatives."""

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from signalbox_tools.setup.generated_pages import _body, _modules, _reasons, _table, calls, page_with
from signalbox_tools.setup.openapi_schemas import members_of

API: dict[str, Any] = {
    "schemas": {
        "Limits": {"type": "object", "properties": {"permits": {}, "lease_seconds": {}}},
        "Full": {"allOf": [{"$ref": "#/schemas/Limits"}, {"required": ["permits"]}]},
    }
}


def body(schema: dict[str, Any]) -> str:
    return _body(API, {"requestBody": {"content": {"application/json": {"schema": schema}}}})


def test_required_fields_are_found_through_references_and_all_of() -> None:
    assert body({"$ref": "#/schemas/Full"}) == "`{permits, lease_seconds?}`"


def test_alternatives_are_listed_once_each() -> None:
    result = {"type": "object", "required": ["result"], "properties": {"result": {}}}
    assert body({"oneOf": [result, {"type": "array"}, result]}) == "`{result}` or an array"


def test_alternatives_have_the_members_of_each_and_require_those_of_all() -> None:
    held = {"type": "object", "required": ["id", "ends_at"], "properties": {"id": {}, "ends_at": {}}}
    queued = {"type": "object", "required": ["id"], "properties": {"id": {}, "since": {}}}
    members, required = members_of(API, {"anyOf": [held, queued]})
    assert ({*members}, required) == ({"id", "ends_at", "since"}, {"id"})


def test_a_body_without_a_schema_is_any_json_and_a_call_without_a_body_has_none() -> None:
    assert body({"description": "A transform."}) == "any JSON"
    assert _body(API, {}) == ""


def test_cells_escape_the_column_separator() -> None:
    assert _table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |"


def test_the_table_of_calls_lists_each_path_and_method() -> None:
    assert "| `PUT /documents/{key}` |" in calls()
    assert "| `POST /semaphore-wait/{name}` |" in calls()


def test_a_table_replaces_the_text_between_its_markers() -> None:
    page = "before\n<!-- generated: t -->old<!-- end of t -->\nafter"
    assert page_with(page, "t", "new") == "before\n<!-- generated: t -->\n\nnew\n\n<!-- end of t -->\nafter"
    with pytest.raises(ValueError, match="no markers for the table 'u'"):
        page_with(page, "u", "new")


@pytest.mark.parametrize("module", [*_modules("limits")], ids=lambda module: str(module.__name__))
def test_each_limit_has_its_reason_below_it(module: ModuleType) -> None:
    """A reason is more than the name in other words, so it has more than a few words."""
    limits, source = type(module.LIMITS), ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    [declared] = [node for node in source.body if isinstance(node, ast.ClassDef) and node.name == limits.__name__]
    reasons = dict(_reasons(declared))
    assert [name for name in vars(limits) if not name.startswith("_")] == [*reasons]
    assert {name: reason for name, reason in reasons.items() if len(reason.split()) < 5} == {}
