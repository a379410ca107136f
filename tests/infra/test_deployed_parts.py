"""A project's deployment has the resources of the kit's parts that its code uses, and none of the others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import load
from signalbox_tools.catalogue_lock import text_of
from signalbox_tools.packaging.zip_building import build
from signalbox_tools.setup import new_function_templates
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Workspace

pytestmark = pytest.mark.slow
ANSWERS = 'from signalbox import Function\n\napp = Function("orders")\norders = app.entry_point()\n'
SEPARATORS = re.compile(r"[^a-z]+")


@pytest.fixture
def google() -> Iterator[GoogleProvider]:
    with GoogleProvider() as provider:
        yield provider


def planned(folder: Path, google: GoogleProvider, main: str) -> set[str]:
    """Return the addresses of the resources of a project's first deployment."""
    for file, text in new_function_templates.files("orders", Project(folder, own=True)).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(main or text if file.name == "main.py" else text)
    (folder / "signalbox.yaml").write_text("functions: {orders: {}}\n")
    catalogue = load(folder / "signalbox.yaml")
    build(catalogue, [], folder / "zips")
    workspace = Workspace(folder / "made", google, folder / "zips", named="dev", examples=False, objectives=True)
    workspace.lock.write_text(text_of(catalogue), "utf-8")
    workspace.initialise()
    workspace.plan()
    return set(workspace.planned())


def keys(addresses: set[str], beginning: str) -> set[str]:
    return {address.split('"')[1] for address in addresses if address.startswith(f'{beginning}["')}


def test_a_flow_has_no_resource_of_batches_documents_objects_semaphores_or_standings(
    tmp_path: Path, google: GoogleProvider
) -> None:
    found = planned(tmp_path, google, "")
    assert keys(found, "module.function") == {"orders", "sweep"}
    assert keys(found, "google_cloud_tasks_queue.queue") == {"flows", "tasks"}
    words = {word for address in found for word in SEPARATORS.split(address)}
    others = {
        "batches",
        "units",
        "workers",
        "links",
        "link",
        "standings",
        "standing",
        "yokes",
        "semaphores",
        "waiters",
        "rates",
        "admit",
        "waits",
        "objects",
    }
    assert words & others == set()
    assert "google_monitoring_alert_policy.no_sweeps" in {address.partition("[")[0] for address in found}


def test_a_function_that_only_answers_has_no_queue_and_no_sweeper(tmp_path: Path, google: GoogleProvider) -> None:
    found = planned(tmp_path, google, ANSWERS)
    assert keys(found, "module.function") == {"orders"}
    kinds = {address.partition("[")[0] for address in found}
    assert kinds.isdisjoint(
        {
            "google_cloud_tasks_queue.queue",
            "google_cloud_scheduler_job.schedule",
            "google_firestore_index.composite",
            "google_monitoring_alert_policy.no_sweeps",
        }
    )
