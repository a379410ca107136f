"""docs/operations.md explains each ERROR log line of the code, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "operations.md").read_text("utf-8")
SOURCES = [*(PROJECT / "shared" / "signalbox").rglob("*.py"), *(PROJECT / "functions").rglob("*.py")]


def error_messages(source: str) -> Iterator[str]:
    """Iterate the messages of `log.error(…)` calls: constants, or a field that a class of the module is given."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "error":
            message = node.args[0]
            if isinstance(message, ast.Constant):
                yield str(message.value)
            elif isinstance(message, ast.Attribute):
                yield from given_as(message.attr, tree)
            else:
                raise AssertionError(f"a log message must be a constant: {ast.unparse(node)}")


def given_as(field: str, tree: ast.Module) -> Iterator[str]:
    """Iterate the constants that the classes of a module are constructed with for a field."""
    places = {
        node.name: [each.target.id for each in fields_of(node)].index(field)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and field in [each.target.id for each in fields_of(node)]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in places:
            named = {each.arg: each.value for each in node.keywords}
            value = named.get(field) or node.args[places[node.func.id]]
            assert isinstance(value, ast.Constant), ast.unparse(node)
            yield str(value.value)


class Field(ast.AnnAssign):
    target: ast.Name


def fields_of(node: ast.ClassDef) -> list[Field]:
    return [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]  # type: ignore[misc]  # each has a name as its target


def logged() -> set[str]:
    return {message for path in SOURCES for message in error_messages(path.read_text("utf-8"))}


def test_every_error_line_of_the_code_is_explained_and_no_other() -> None:
    section = PAGE.partition("## ERROR lines")[2].partition("\n## ")[0]
    assert set(re.findall(r"^### `(.+)`$", section, re.MULTILINE)) == logged()
    assert len(logged()) > 5


def test_messages_passed_through_a_field_are_found() -> None:
    source = '@dataclass\nclass Way:\n    a: int\n    text: str\n\nWay(1, "given up")\nlog.error(way.text)\n'
    assert list(error_messages(source)) == ["given up"]
