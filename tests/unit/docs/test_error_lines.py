"""docs/operations.md explains each ERROR log line of the code. Each has an alert, or a reason why it has none."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[3]
ALERTS = (PROJECT / "infra" / "log_alerts.tf").read_text("utf-8")
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


def explained() -> dict[str, str]:
    """Return the text about each ERROR line, by its message."""
    section = PAGE.partition("\n## ERROR lines")[2].partition("\n## ")[0]
    parts = re.split(r"^### `(.+)`$", section, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def alerts_on_lines() -> list[tuple[str, str, list[str]]]:
    """Return the title, severity and messages of each alert on ERROR lines."""
    block = re.compile(r'title\s*= "(.+)"\n\s*severity = "(.+)"\n\s*messages = \[(.+)\]')
    return [(title, severity, re.findall(r'"([^"]+)"', text)) for title, severity, text in block.findall(ALERTS)]


def test_every_error_line_of_the_code_is_explained_and_no_other() -> None:
    assert set(explained()) == logged()
    assert len(logged()) > 5


def test_every_error_line_of_the_code_raises_one_alert_or_has_the_reason_why_none() -> None:
    alerted = [message for _, _, messages in alerts_on_lines() for message in messages]
    silent = [message for message, text in explained().items() if re.search(r"^No alert", text, re.MULTILINE)]
    assert sorted(alerted + silent) == sorted(logged())


def test_the_page_has_a_row_of_each_alert_on_lines_with_its_severity_and_a_link_to_each_line() -> None:
    for title, severity, messages in alerts_on_lines():
        [row] = re.findall(rf"^\| {title} \| {severity} \| .+$", PAGE, re.MULTILINE)
        swept = [message for message in messages if message.endswith(" cannot be swept")]
        assert [message for message in messages if message not in swept and f"[`{message}`](#" not in row] == []


def test_messages_passed_through_a_field_are_found() -> None:
    source = '@dataclass\nclass Way:\n    a: int\n    text: str\n\nWay(1, "given up")\nlog.error(way.text)\n'
    assert list(error_messages(source)) == ["given up"]
