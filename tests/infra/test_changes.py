"""A change plans what it should, and nothing else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.packaging.zip_building import build
from tests.infra.workspace import Workspace
from tests.packaging.sources import copy_of_the_project

pytestmark = pytest.mark.slow

FUNCTION = 'module.function["{}"].google_cloudfunctions2_function.function'
SOURCE = 'module.function["{}"].google_storage_bucket_object.source'
OF_DOCUMENTS_ONLY = "shared/signalbox/documents/http.py"


@pytest.fixture
def dist(deployed: Workspace, zips: Path) -> Iterator[Path]:
    """Return the folder that a deployment takes its zips from; afterwards it is as it was."""
    folder = deployed.infra.parent / "dist"
    yield folder
    shutil.copytree(zips, folder, dirs_exist_ok=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a copy of what the zips are made from."""
    return copy_of_the_project(tmp_path)


def test_what_one_function_imports_redeploys_that_one_only(deployed: Workspace, dist: Path, source: Path) -> None:
    file = source / OF_DOCUMENTS_ONLY
    file.write_text(file.read_text() + "\n# A line more.\n")
    build(load(source / "infra" / "catalogue.yaml"), [], dist)
    deployed.plan()
    assert deployed.changes() == {
        FUNCTION.format("documents"): ["update"],
        SOURCE.format("documents"): ["create", "delete"],
    }


def test_packaging_again_plans_nothing_and_warns_of_nothing(deployed: Workspace, dist: Path, source: Path) -> None:
    build(load(source / "infra" / "catalogue.yaml"), [], dist)
    printed = deployed.plan().stdout
    assert deployed.changes() == {}
    assert "Warning" not in printed


def test_one_more_function_updates_no_other(first: Workspace) -> None:
    added = {"folder": "examples/quilt", "invoked_by": ["people", "queue"], "tasks": ["print"], "flows": ["order"]}
    first.edit_catalogue(lambda catalogue: catalogue["functions"].update(another=added | {"public": True}))
    (first.infra.parent / "dist" / "another.zip").touch()
    first.plan()
    changes = first.changes()
    functions = {address: actions for address, actions in changes.items() if "_function.function" in address}
    assert functions == {FUNCTION.format("another"): ["create"], FUNCTION.format("another_tasks"): ["create"]}
    first.apply()
    objects = {name for kind, name in first.google.cloud.existing if kind == "google_storage_bucket_object"}
    assert any("catalogue.json" in name for name in objects), "replaced under its name, and not deleted afterwards"
    first.plan()
    assert first.changes() == {}
    assert "google_storage_bucket_object.catalogue" in changes
