"""What the packager follows, joins and refuses."""

import pytest

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox_tools.packaging.imported_modules import PackagingError, library_files
from tests.packaging.conftest import LOCKED, Packaged, Project


@pytest.mark.parametrize(
    "text",
    [
        "import signalbox.rules.a",
        "from signalbox.rules import a",
        "from signalbox.rules.a import answer",
        "def later():\n    from signalbox.rules import a",
        "if False:\n    import signalbox.rules.a as b",
        "import importlib\nimportlib.import_module('signalbox.rules.a')",
        "from importlib import import_module\nNAMES = {'a': 'signalbox.rules.a'}\nimport_module(NAMES[name])",
    ],
)
def test_every_way_of_importing_a_module_is_seen(project: Project, text: str) -> None:
    assert set(library_files({"main.py": text.encode()}, project({}))) == {
        "signalbox/__init__.py",
        "signalbox/rules/__init__.py",
        "signalbox/rules/a.py",
    }


LAZY = """\
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from signalbox.flows.api import flows as flows
make_lazy(__name__)
"""
"""A package with a public name that is also the name of a folder."""


@pytest.mark.parametrize(
    ("text", "module"), [("from signalbox import flows", "api"), ("from signalbox.flows import problems", "problems")]
)
def test_a_public_name_and_its_folder_of_the_same_name_are_distinct(project: Project, text: str, module: str) -> None:
    files = {"__init__.py": LAZY, "flows/__init__.py": "", "flows/api.py": "", "flows/problems.py": ""}
    root = project({f"shared/signalbox/{path}": content for path, content in files.items()})
    assert set(library_files({"main.py": text.encode()}, root)) == {
        "signalbox/__init__.py",
        "signalbox/flows/__init__.py",
        f"signalbox/flows/{module}.py",
    }


def test_imports_are_followed_through_modules_packages_siblings_and_relative_names(
    project: Project, packaged: Packaged
) -> None:
    root = project(
        {
            "functions/one/main.py": "import sibling\n\none = sibling.one\n",
            "functions/one/sibling.py": "from signalbox.core.front import one\n",
            "shared/signalbox/core/__init__.py": "from . import registry\n",
            "shared/signalbox/core/registry.py": "",
            "shared/signalbox/core/front.py": "from ..rules.a import answer\nfrom .. import top\none = answer\n",
            "shared/signalbox/core/unused.py": "",
            "shared/signalbox/top.py": "",
        }
    )
    assert {path for path in packaged(root, "one").files if path.startswith("signalbox/")} == {
        "signalbox/__init__.py",
        "signalbox/core/__init__.py",
        "signalbox/core/front.py",
        "signalbox/core/registry.py",
        "signalbox/rules/__init__.py",
        "signalbox/rules/a.py",
        "signalbox/top.py",
    }


def test_modules_that_import_each_other_end_the_search(project: Project, packaged: Packaged) -> None:
    root = project(
        {
            "shared/signalbox/rules/a.py": "import signalbox.rules.b\nanswer = 1\n",
            "shared/signalbox/rules/b.py": "import signalbox.rules.a\n",
        }
    )
    assert {"signalbox/rules/a.py", "signalbox/rules/b.py"} <= packaged(root, "one").files.keys()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import signalbox.rules.missing", "imports signalbox.rules.missing, which does not exist"),
        ("from signalbox.rules import *", "imports * from a package"),
        ("from signalbox_tools import catalogue", "imports signalbox_tools/, which is not in the zip"),
        ("import tests.simulation", "imports tests/, which is not in the zip"),
        ("from ... import sibling", "imports from above the zip's root"),
        (
            "import importlib\nNAMES = dict(a='signalbox.rules.a')\nimportlib.import_module(NAMES[name])",
            "uses import_module with",
        ),
        ("import importlib\nimportlib.import_module('signalbox.' + name)", "uses import_module with a name"),
        ("from importlib import import_module\nimport_module(f'signalbox.{name}')", "uses import_module with a name"),
        ("from importlib import import_module as get\nget('signalbox.rules.a')", "renames import_module"),
        ("load = __import__\nload('signalbox.rules.a')", "uses __import__ with a name"),
        ("one = (", "does not compile"),
        ("return 1", "does not compile"),
    ],
)
def test_what_cannot_be_followed_or_run_is_refused_with_its_place(
    project: Project, packaged: Packaged, text: str, complaint: str
) -> None:
    root = project({"shared/signalbox/rules/a.py": f"{text}\n"})
    with pytest.raises(PackagingError, match=r"one: signalbox/rules/a\.py") as refusal:
        packaged(root, "one")
    assert complaint in str(refusal.value)


def test_a_syntax_error_in_a_sibling_that_nothing_imports_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(CatalogueError, match=r"one: odd\.py does not compile"):
        packaged(project({"functions/one/odd.py": "def (:\n"}), "one")


def test_a_main_without_the_entry_point_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(PackagingError, match=r"one: main\.py defines no one"):
        packaged(project({"functions/one/main.py": "def other(request):\n    return 1\n"}), "one")


def test_a_folder_of_its_own_with_the_librarys_name_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(PackagingError, match="one: signalbox is the library's name"):
        packaged(project({"functions/one/signalbox/extra.py": ""}), "one")


def test_the_export_of_spans_is_in_the_zips_of_functions_that_have_its_packages(
    project: Project, packaged: Packaged
) -> None:
    root = project(
        {
            "functions/one/main.py": "from signalbox.core import spans\n\none = spans\n",
            "functions/one/requirements.txt": "opentelemetry-sdk==1.45.2 --hash=sha256:00\n",
            "functions/two/main.py": "from signalbox.core import spans\n\ntwo = spans\n",
            "shared/signalbox/core/__init__.py": "",
            "shared/signalbox/core/spans.py": "from signalbox.adapters import otel as otel\n",
            "shared/signalbox/adapters/__init__.py": "",
            "shared/signalbox/adapters/otel.py": "",
        }
    )
    assert "signalbox/adapters/otel.py" in packaged(root, "one").files
    assert "signalbox/adapters/otel.py" not in packaged(root, "two").files


def test_a_functions_own_locked_requirements_are_joined_to_the_lock(project: Project, packaged: Packaged) -> None:
    own = f"# made by uv\n{LOCKED}Numpy_X==2.0 ; python_version > '3' \\\n    --hash=sha256:01 \\\n    --hash=sha256:02"
    joined = packaged(project({"functions/one/requirements.txt": own}), "one").files["requirements.txt"].decode()
    added = "Numpy_X==2.0 ; python_version > '3' \\\n    --hash=sha256:01 \\\n    --hash=sha256:02\n"
    assert joined == LOCKED + added


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        (
            "Flask==2.0 --hash=sha256:00\n",
            r"Flask==2\.0 conflicts with flask==3\.1\.3 of functions/.*signalbox lock",
        ),
        ("numpy\n", "'numpy' is not pinned by == with a hash"),
        ("numpy==2.0\n", r"'numpy==2\.0' is not pinned by == with a hash"),
        ("-r other.txt\n", "'-r other.txt' is not pinned by == with a hash"),
    ],
)
def test_requirements_that_are_no_lock_or_disagree_are_refused(
    project: Project, packaged: Packaged, own: str, complaint: str
) -> None:
    with pytest.raises(PackagingError, match=complaint):
        packaged(project({"functions/one/requirements.txt": own}), "one")
