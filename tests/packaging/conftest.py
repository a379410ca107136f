"""A small project to package: two functions and a library."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.packaging.source_zip import Package, package

LOCKED = "flask==3.1.3 \\\n    --hash=sha256:00\n"

Files = Mapping[str, str]
Project = Callable[[Files], Path]
Packaged = Callable[[Path, str], Package]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Lay out a small project: two functions, `one` and `two`, and a library, changed by the given files."""

    def lay_out(files: Files) -> Path:
        usual = {
            "infra/catalogue.yaml": "functions:\n  one: {invoked_by: [people]}\n  two: {invoked_by: [people]}\n",
            "functions/requirements.txt": LOCKED,
            "functions/one/main.py": "from signalbox.rules import a\n\none = a.answer\n",
            "functions/two/main.py": "from signalbox.rules.b import answer\n\n\ndef two(request):\n    return answer\n",
            "shared/signalbox/__init__.py": "",
            "shared/signalbox/rules/__init__.py": "",
            "shared/signalbox/rules/a.py": "answer = 1\n",
            "shared/signalbox/rules/b.py": "answer = 2\n",
        }
        for path, content in {**usual, **files}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        return tmp_path

    return lay_out


@pytest.fixture
def packaged() -> Packaged:
    """Package a function of a project."""

    def build(project: Path, name: str) -> Package:
        return package(load(project / "infra/catalogue.yaml").functions[name], project)

    return build
