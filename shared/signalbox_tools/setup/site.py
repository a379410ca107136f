"""Build the site of the pages: ``python -m signalbox_tools.setup.site`` writes `dist/site` (``mkdocs-material``).

The pages keep the layout of the repository, so their links hold on GitHub and on the site. Each page is also stored as
Markdown next to its HTML, and `llms.txt` lists all. The reference is made from the docstrings of the public names.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import yaml

import signalbox

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
REFERENCE = "docs/reference.md"
REFERENCE_HEAD = """# Reference

What `from signalbox import …` offers, with signatures, types and errors. A class without a public name, such as
`Semaphore`, follows below the name that returns it. Each name has an example in [its page](README.md#names)."""
PUBLIC: Mapping[str, str] = {
    name: f"{module}.{name}"
    for module, name in re.findall(
        r"^    from (\S+) import \w+ as (\w+)$", Path(signalbox.__file__).read_text("utf-8"), re.MULTILINE
    )
}
"""Where each public name is defined. Some, such as `flows`, are also names of packages."""

REFERENCE_OPTIONS: Mapping[str, str] = {
    "flow": "show_if_no_docstring: false",
    "Function": "merge_init_into_class: true",
    "Object": "inherited_members: true",
    "Problem": "merge_init_into_class: true",
    "Transaction": "inherited_members: true",
    "Unavailable": "merge_init_into_class: true",
}
"""What differs for a name: classes that users construct, that inherit what they are for, and a module."""

TOOLS = ("mkdocs==1.6.1", "mkdocs-material==9.8.2", "mkdocstrings-python==2.0.11", "mkdocstrings==1.0.8")

GUIDES: Mapping[str, Sequence[str]] = {
    "Start": (
        "docs/tutorial.md",
        "docs/own-project.md",
        "docs/local.md",
        "docs/testing.md",
        "docs/console.md",
        "docs/tasks-emulator.md",
    ),
    "Guides": (
        "docs/functions.md",
        "docs/tasks.md",
        "docs/semaphores.md",
        "docs/critical-sections.md",
        "docs/rates.md",
        "docs/limiting.md",
        "docs/batches.md",
        "docs/objects.md",
        "docs/flows.md",
        "docs/flow-waits.md",
        "docs/flow-operations.md",
        "docs/flow-patterns.md",
        "docs/payloads.md",
        "docs/documents.md",
        "docs/transforms.md",
        "docs/document-events.md",
        "docs/standings.md",
        "docs/resources.md",
        "docs/client.md",
        "docs/browsers.md",
    ),
    "In the cloud": (
        "docs/deployment.md",
        "docs/custom-domain.md",
        "docs/github-actions.md",
        "docs/operations.md",
        "docs/region-outage.md",
        "docs/upgrading.md",
        "docs/export-and-import.md",
        "docs/exit.md",
        "SECURITY.md",
    ),
    "Reference": (
        REFERENCE,
        "docs/http.md",
        "docs/reference/calls.md",
        "docs/reference/problems.md",
        "docs/costs.md",
        "docs/reference/costs.md",
        "docs/limits.md",
        "docs/reference/limits.md",
        "docs/reference/console.md",
        "docs/glossary.md",
    ),
    "Compared": (
        "docs/comparison.md",
        "docs/from-celery.md",
        "docs/leaving-firebase-extensions.md",
        "docs/benchmarks.md",
    ),
}
"""The pages of the site's navigation, by section. All others follow below "How it works" and "Project"."""

PROJECT = ("CHANGELOG.md", "SUPPORT.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")


def pages(root: Path = ROOT) -> list[str]:
    """Return the Markdown files of the site, relative to the root."""
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*/README.md")]
    return sorted(
        str(each.relative_to(root))
        for each in (*found, root / "infra" / "README.md", *root.glob("clients/*/README.md"))
    )


def linked_files(root: Path, page: str) -> Iterator[str]:
    """Iterate over the files other than pages that a page links."""
    file = root / page
    for link in LINK.findall(file.read_text("utf-8")):
        target = (file.parent / unquote(link)).resolve()
        if target.suffix != ".md" and target.is_file() and target.is_relative_to(root):
            yield str(target.relative_to(root))


def title(text: str) -> str:
    """Return the first heading of a page."""
    return next(line.removeprefix("# ").strip() for line in text.splitlines() if line.startswith("# "))


def summary(text: str) -> str:
    """Return the first sentence below the first heading of a page, without links; empty if there is none."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith("# "))
    paragraph = " ".join(next(_paragraphs(lines), []))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")


def _paragraphs(lines: Iterator[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in (*lines, ""):
        if line.strip() and line[0].isalpha() | (line[0] in "`*["):
            paragraph.append(line.strip())
        elif paragraph:
            yield paragraph
            paragraph = []


def reference() -> str:
    """Return the page with signature, members and docstring of each public name, and of the classes that it returns."""
    names = sorted(PUBLIC, key=str.lower)
    blocks = "\n".join(_block(_path(name), f"signalbox.{name}", 2, name) + _classes_of(name) for name in names)
    return f"{REFERENCE_HEAD}\n\n{blocks}"


def _classes_of(name: str) -> str:
    return "".join(
        _block(f"{each.__module__}.{each.__qualname__}", each.__name__, 3) for each in returned_classes(name)
    )


def _path(name: str) -> str:
    is_package = (Path(signalbox.__file__).parent / name).is_dir()
    return PUBLIC[name] if is_package else f"signalbox.{name}"


def _block(path: str, heading: str, level: int, name: str = "") -> str:
    options = [
        f"heading: {heading}",
        f"toc_label: {heading}",
        f"heading_level: {level}",
        REFERENCE_OPTIONS.get(name, ""),
    ]
    lines = "\n".join(f"      {each}" for each in options if each)
    return f"::: {path}\n    options:\n{lines}\n\n"


def returned_classes(name: str) -> list[type]:
    """Return the classes of the kit without a public name that a public function returns, or an object's own class."""
    value = getattr(signalbox, name)
    if inspect.isclass(value) or inspect.ismodule(value):
        return []
    found: list[object] = [type(value)]
    if inspect.isfunction(value):
        hints = [typing.get_type_hints(each).get("return") for each in typing.get_overloads(value) or [value]]
        found = [typing.get_origin(hint) or hint for hint in hints]
    public = {id(getattr(signalbox, each)) for each in PUBLIC}
    classes = [each for each in found if inspect.isclass(each) and id(each) not in public]
    return [each for each in classes if each.__module__.startswith("signalbox.")]


def llms_txt(texts: Mapping[str, str]) -> str:
    """Return the list of pages for programs that read them, in the form of llmstxt.org."""
    head = texts["README.md"]
    parts = [f"# {title(head)}\n\n> {summary(head)}\n"]
    for section, named in navigation(list(texts)).items():
        rows = [f"- [{title(texts[page])}]({page}): {summary(texts[page])}" for page in named if page in texts]
        parts.append(f"## {section}\n\n" + "\n".join(row.rstrip(": ") for row in rows) + "\n")
    return "\n".join(parts)


def navigation(all_pages: Sequence[str]) -> dict[str, list[str]]:
    """Return the pages of each section. Every page is in one."""
    sections = {name: list(named) for name, named in GUIDES.items()}
    placed = {"README.md", *PROJECT, *(page for named in sections.values() for page in named)}
    left = [page for page in all_pages if page not in placed]
    examples = [page for page in left if page.startswith("examples/")]
    sections["Examples"] = examples
    sections["How it works"] = [page for page in left if page not in examples]
    sections["Project"] = [page for page in PROJECT if page in all_pages]
    return sections


def settings(all_pages: Sequence[str], folder: Path) -> dict[str, object]:
    """Return the content of mkdocs.yml."""
    sections = [{name: named} for name, named in navigation(all_pages).items()]
    return {
        "site_name": "Signalbox",
        "site_url": "",
        "docs_dir": str(folder / "pages"),
        "site_dir": str(ROOT / "dist" / "site"),
        "use_directory_urls": False,  # the site can also be opened as files
        "strict": True,
        "theme": {
            "name": "material",
            "font": False,  # no other server is asked
            "features": ["navigation.sections", "navigation.top", "search.suggest", "content.code.copy", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "teal"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "teal"},
            ],
        },
        "nav": [{"Signalbox": "README.md"}, *sections],
        "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}, "nav": {"omitted_files": "warn"}},
        "plugins": [
            {"search": {"lang": "en"}},
            {
                "mkdocstrings": {
                    "handlers": {
                        "python": {
                            "paths": [str(ROOT / "shared")],
                            "options": {
                                "show_source": False,
                                "show_root_heading": True,
                                "heading_level": 2,
                                "members_order": "source",
                                "show_if_no_docstring": True,
                                "overloads_only": True,
                                "show_signature_annotations": True,
                                "separate_signature": True,
                            },
                        }
                    }
                }
            },
        ],
        "markdown_extensions": [
            "tables",
            "attr_list",
            "pymdownx.superfences",
            "pymdownx.highlight",
            {"toc": {"permalink": True, "slugify": "SLUGIFY"}},
        ],
    }


def build() -> Path:
    """Build the site and return its folder. Raises `CalledProcessError` if a link leads nowhere."""
    folder = ROOT / ".local" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    named = pages()
    texts = {page: (ROOT / page).read_text("utf-8") for page in named} | {REFERENCE: reference()}
    for page in named:
        for file in {page, *linked_files(ROOT, page)}:
            _copy(ROOT / file, folder / "pages" / file)
    (folder / "pages" / REFERENCE).write_text(texts[REFERENCE], "utf-8")
    written = yaml.safe_dump(settings(list(texts), folder), sort_keys=False)
    # The anchors are GitHub's, as the links of the pages have them.
    slugs = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
    (folder / "mkdocs.yml").write_text(written.replace("SLUGIFY", slugs), "utf-8")
    first, *others = TOOLS
    brought = [f"--with={each}" for each in others]
    mkdocs = (sys.executable, "-m", "uv", "tool", "run", "--quiet", f"--from={first}", *brought, "mkdocs")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [*mkdocs, "build", "--strict", "--quiet", f"--config-file={folder / 'mkdocs.yml'}"]
    subprocess.run(command, check=True, env=quiet)  # noqa: S603 (a list, no shell)
    site = ROOT / "dist" / "site"
    for page, text in texts.items():
        target = site / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (site / "llms.txt").write_text(llms_txt(texts), "utf-8")
    return site


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    sys.stdout.write(f"{build().relative_to(ROOT)}/index.html\n")
