"""The pages agree with the tree, with the code and with each other."""

import re
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.cli.main import cli
from signalbox_tools.setup.generated_pages import TABLES, page_with
from tests.unit.test_rings import SUBJECTS

PROJECT = Path(__file__).parents[3]
ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md")
"""Identifiers that the code no longer uses: the pages must not either."""
PAGES = [
    *(PROJECT / name for name in ROOT_PAGES),
    *sorted((PROJECT / "docs").rglob("*.md")),
    PROJECT / "infra" / "README.md",
    *sorted((PROJECT / "examples").glob("*/README.md")),
]
FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FOLDERS = r"(?:shared|functions|infra|examples|tests|docs|\.ci)"
PATH = re.compile(rf"{FOLDERS}/[\w./-]*\w/?")
MADE_BY_TERRAFORM = {"infra/.terraform.lock.hcl"}
README_WORDS = range(550, 851)
REPLACED_WORDS = (
    "occasion",
    "Occasion",
    "nouns",
    "Held",
    "Wish",
    "Patience",
    "Looks",
    "Seen",
    "reshape",
    "make_known",
    "pass_on",
    "spilled",
    "QuietWorld",
    "Town",
    "parts.py",
    "tally.py",
    "surroundings.py",
    "quiet.py",
    "front/",
)
"""Identifiers that the code no longer uses: the pages must not either."""


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_internal_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_path_in_backticks_exists(page: Path) -> None:
    text = prose(page)
    made = {*MADE_BY_TERRAFORM, *re.findall(r"<!-- file: (\S+) -->", text)}
    paths = [code for code in CODE.findall(text) if PATH.fullmatch(code) and "NAME" not in code]
    assert [path for path in paths if path not in made and not (PROJECT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_make_target_on_a_page_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))) - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_of_signalbox_on_a_page_exists(page: Path) -> None:
    assert commands_in(page.read_text("utf-8")) - cli.commands.keys() == set()


SOURCES = sorted((PROJECT / "shared").rglob("*.py"))
ONLY_IN_A_CLONE = {"wheel", "docs", "bench", "setup"}
"""Targets of the kit's Makefile that its code may name. A project has `setup`, `test` and `check`."""


def test_messages_in_the_code_name_commands_of_signalbox_that_exist_and_few_targets() -> None:
    texts = {path: path.read_text("utf-8") for path in SOURCES}
    assert {word for text in texts.values() for word in commands_in(text)} - cli.commands.keys() == set()
    targets = {(target, path) for path, text in texts.items() for target in re.findall(r"`make ([a-z-]+)", text)}
    assert {each for each in targets if each[0] not in ONLY_IN_A_CLONE} == set()


def commands_in(text: str) -> set[str]:
    """Return the commands of signalbox that a text has in backticks, or at the begin of a line of a fence."""
    return set(re.findall(r"(?:`|^(?:[A-Z_]+=\S+ )?)signalbox ([a-z][a-z-]*)", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_name_no_identifier_that_was_replaced(page: Path) -> None:
    found = [word for code in CODE.findall(prose(page)) for word in REPLACED_WORDS if re.search(rf"\b{word}", code)]
    assert found == []


@pytest.mark.parametrize("name", TABLES)
def test_generated_tables_are_what_the_code_generates(name: str) -> None:
    page, make = TABLES[name]
    text = (PROJECT / page).read_text("utf-8")
    assert page_with(text, name, make()) == text, "run `make docs`"


def test_the_readme_is_about_700_words() -> None:
    assert len((PROJECT / "README.md").read_text("utf-8").split()) in README_WORDS


def test_broken_links_and_paths_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading: `x`\n[a](#a-heading-x) [b](#none) [c](none.md)\n```\n[d](in-a-fence.md)\n```\n")
    assert LINK.findall(prose(page)) == ["#a-heading-x", "#none", "none.md"]
    assert anchors(page) == {"a-heading-x"}
    assert PATH.fullmatch("shared/signalbox/core/limits.py")


def test_the_architecture_page_has_the_table_of_imports_between_subjects() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (\w+) \| ?([\w, ]*?) ?\|$", text.partition("<!-- subjects -->\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    table = {subject: tuple(filter(None, others.split(", "))) for subject, others in rows if subject != "subject"}
    assert table == SUBJECTS


def decided_in() -> list[str]:
    """Return the names ``module:function`` in the table "where is it decided"."""
    table = (
        (PROJECT / "ARCHITECTURE.md").read_text("utf-8").partition("| where is it decided |")[2].partition("\n\n")[0]
    )
    return re.findall(r"`([\w.]+:[\w.]+)`", table)


@pytest.mark.parametrize("name", decided_in())
def test_the_architecture_page_names_functions_that_exist(name: str) -> None:
    module, _, path = name.partition(":")
    found: object = import_module(f"signalbox.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)


@pytest.mark.parametrize(("caller", "invoker"), {"people": "people", "queues": "queue", "events": "event"}.items())
def test_the_security_page_lists_the_functions_of_the_kit_by_their_callers(caller: str, invoker: str) -> None:
    [row] = re.findall(rf"^\| {caller} \| (.*?) \|", (PROJECT / "SECURITY.md").read_text("utf-8"), re.MULTILINE)
    functions = load().functions
    ours = {name for name, each in functions.items() if each.folder.parent == PROJECT / "functions"}
    assert set(re.findall(r"`(\w+)`", row)) == {name for name in ours if invoker in functions[name].invoked_by}


@pytest.mark.parametrize(
    ("routes", "of"), [("flows/http/routes.py", "Actions of flows"), ("objects/http.py", "Of objects")]
)
def test_the_page_of_rules_names_each_action_for_which_a_route_asks(routes: str, of: str) -> None:
    asked = set(re.findall(r'Access\(request, "(\w+)"', (PROJECT / "shared" / "signalbox" / routes).read_text("utf-8")))
    page = (PROJECT / "docs" / "functions.md").read_text("utf-8")
    named = page.partition(f"{of}: ")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", named)) == asked


def test_no_page_loads_an_image_from_elsewhere() -> None:
    """The site asks no other server."""
    images = [
        (page.name, image)
        for page in PAGES
        for image in re.findall(r"!\[[^]]*\]\((http[^)]*)", page.read_text("utf-8"))
    ]
    assert images == []
