"""What the packager follows, joins and refuses."""

import pytest

from infra.packaging.imports import PackagingError, shared_files
from tests.packaging.conftest import LOCKED, Packaged, Project


@pytest.mark.parametrize(
    "text",
    [
        "import shared.rules.a",
        "from shared.rules import a",
        "from shared.rules.a import answer",
        "def later():\n    from shared.rules import a",
        "if False:\n    import shared.rules.a as b",
        "import importlib\nimportlib.import_module('shared.rules.a')",
        "from importlib import import_module\nNAMES = {'a': 'shared.rules.a'}\nimport_module(NAMES[name])",
    ],
)
def test_every_way_of_importing_a_module_is_seen(project: Project, text: str) -> None:
    assert set(shared_files({"main.py": text.encode()}, project({}))) == {
        "shared/__init__.py",
        "shared/rules/__init__.py",
        "shared/rules/a.py",
    }


def test_imports_are_followed_through_modules_packages_siblings_and_relative_names(
    project: Project, packaged: Packaged
) -> None:
    root = project(
        {
            "functions/one/main.py": "import sibling\n\none = sibling.one\n",
            "functions/one/sibling.py": "from shared.adapters.front import one\n",
            "shared/adapters/__init__.py": "from . import registry\n",
            "shared/adapters/registry.py": "",
            "shared/adapters/front.py": "from ..rules.a import answer\nfrom .. import top\none = answer\n",
            "shared/adapters/unused.py": "",
            "shared/top.py": "",
        }
    )
    assert {path for path in packaged(root, "one").files if path.startswith("shared/")} == {
        "shared/__init__.py",
        "shared/adapters/__init__.py",
        "shared/adapters/front.py",
        "shared/adapters/registry.py",
        "shared/rules/__init__.py",
        "shared/rules/a.py",
        "shared/top.py",
    }


def test_modules_that_import_each_other_end_the_search(project: Project, packaged: Packaged) -> None:
    root = project(
        {"shared/rules/a.py": "import shared.rules.b\nanswer = 1\n", "shared/rules/b.py": "import shared.rules.a\n"}
    )
    assert {"shared/rules/a.py", "shared/rules/b.py"} <= packaged(root, "one").files.keys()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import shared.rules.missing", "imports shared.rules.missing, which does not exist"),
        ("from shared.rules import *", "imports * from a package"),
        ("from infra import catalogue", "imports infra/, which is not in the zip"),
        ("import tests.simulation", "imports tests/, which is not in the zip"),
        ("from ... import sibling", "imports from above the zip's root"),
        (
            "import importlib\nNAMES = dict(a='shared.rules.a')\nimportlib.import_module(NAMES[name])",
            "uses import_module with",
        ),
        ("import importlib\nimportlib.import_module('shared.' + name)", "uses import_module with a name"),
        ("from importlib import import_module\nimport_module(f'shared.{name}')", "uses import_module with a name"),
        ("from importlib import import_module as get\nget('shared.rules.a')", "renames import_module"),
        ("load = __import__\nload('shared.rules.a')", "uses __import__ with a name"),
        ("one = (", "does not compile"),
        ("return 1", "does not compile"),
    ],
)
def test_what_cannot_be_followed_or_run_is_refused_with_its_place(
    project: Project, packaged: Packaged, text: str, complaint: str
) -> None:
    root = project({"shared/rules/a.py": f"{text}\n"})
    with pytest.raises(PackagingError, match=r"one: shared/rules/a\.py") as refusal:
        packaged(root, "one")
    assert complaint in str(refusal.value)


def test_a_syntax_error_in_a_sibling_that_nothing_imports_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(PackagingError, match=r"one: odd\.py does not compile"):
        packaged(project({"functions/one/odd.py": "def (:\n"}), "one")


def test_a_main_without_the_entry_point_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(PackagingError, match=r"one: main\.py defines no one"):
        packaged(project({"functions/one/main.py": "def other(request):\n    return 1\n"}), "one")


def test_a_folder_of_its_own_called_shared_is_refused(project: Project, packaged: Packaged) -> None:
    with pytest.raises(PackagingError, match="one: shared is the library's name"):
        packaged(project({"functions/one/shared/extra.py": ""}), "one")


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
            r"Flask==2\.0 conflicts with flask==3\.1\.3 of functions/.*make lock",
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
