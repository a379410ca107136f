"""The pages: every public name has one section with an example, and the examples run, with a `harness` defined."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from signalbox import semaphore
from signalbox.testing import harness as testing_harness
from signalbox.testing.harness import Harness
from tests.unit.test_public_names import NAMES as PUBLIC

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]+?) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
APPENDED = re.compile(r"^<!-- append: infra/catalogue.yaml -->\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^### `(?P<name>\w+)`$\n(?P<text>.*?)(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A block of code in a page. `mark` is the comment before it: ``not run``, or ``file: PATH`` of a file it makes."""

    page: str
    line: int
    mark: str
    code: str

    def compiled(self) -> Any:
        """Compile the code with the page's line numbers, so that a traceback points into the page."""
        return compile("\n" * self.line + self.code, str(DOCS / self.page), "exec")


def examples(page: str) -> Iterator[Example]:
    """Iterate over the examples of a page; a page that does not exist has none."""
    text = (DOCS / page).read_text("utf-8") if (DOCS / page).exists() else ""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))
        yield Example(page, line, block["mark"] or "", block["code"])


def named(example: Example) -> str:
    return f"{example.page}:{example.line}"


PAGES = sorted(path.name for path in DOCS.glob("*.md"))
EXAMPLES = [example for page in PAGES for example in examples(page)]


def sections() -> list[tuple[str, str]]:
    """Return the name and the text of each section about a name, of all pages."""
    texts = [(DOCS / page).read_text("utf-8") for page in PAGES]
    return [(section["name"], section["text"]) for text in texts for section in SECTION.finditer(text)]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_section_with_an_example_that_uses_it(name: str) -> None:
    blocks = [block["code"] for block in BLOCK.finditer(dict(sections()).get(name, ""))]
    assert any(re.search(rf"\b{name}\b", code, re.IGNORECASE) for code in blocks)


def test_every_public_name_has_one_section_and_no_section_is_about_another_name() -> None:
    assert sorted(name for name, _ in sections()) == sorted(PUBLIC)


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_every_example_compiles_and_runs(example: Example) -> None:
    code = example.compiled()
    if example.mark != "not run" and not example.mark.startswith("file:"):
        with Harness() as harness:
            exec(code, {"__name__": "example", "harness": harness})  # noqa: S102  the project's own pages
            harness.run()


def test_the_tests_in_the_tutorial_pass_with_the_functions_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {one.mark.removeprefix("file: "): one for one in examples("tutorial.md") if one.mark.startswith("file: ")}
    assert files
    functions = [path for path in files if path.endswith("/main.py")]
    for path in functions:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(files[path].code, "utf-8")
    [entries] = APPENDED.findall((DOCS / "tutorial.md").read_text("utf-8"))
    harness = _harness_with([tmp_path / Path(path).parent for path in functions], yaml.safe_load(entries)["semaphores"])
    monkeypatch.setattr(testing_harness, "Harness", harness)
    for path in files.keys() - set(functions):
        namespace: dict[str, Any] = {"__name__": "example"}
        exec(files[path].compiled(), namespace)  # noqa: S102  runs the examples of the pages
        tests = [value for name, value in namespace.items() if name.startswith("test_")]
        assert tests
        for test in tests:
            test()


def _harness_with(folders: list[Path], semaphores: dict[str, Any]) -> type[Harness]:
    """Return a harness whose catalogue has the functions of these folders and these semaphores, too."""

    class HarnessWithFolders(Harness):
        def __init__(self) -> None:
            super().__init__()
            for folder in folders:
                self.load(folder)

        def __enter__(self) -> Self:
            super().__enter__()
            for name, values in semaphores.items():
                semaphore(name).ensure(**values)
            return self

    return HarnessWithFolders


def test_an_example_that_is_wrong_fails_at_its_line_of_the_page() -> None:
    example = Example("tasks.md", 41, "", "assert 1 == 1\nassert 1 == 2\n")
    with pytest.raises(AssertionError) as failed:
        exec(example.compiled(), {})  # noqa: S102  runs the examples of the pages
    assert failed.traceback[-1].lineno == 42
