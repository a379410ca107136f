"""What the tests of the infrastructure share: the zips, and one deployment applied on the fake provider."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.packaging.zip_building import build
from tests.infra.applied_once import applied, folder_of_the_run, one_at_a_time
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace
from tests.required_programs import TERRAFORM

PAGE = "https://app.example.com"
DOMAIN = "api.example.com"


@pytest.fixture(scope="session", autouse=True)
def terraform() -> str:
    """Return Terraform's path. Without it the test is skipped."""
    return TERRAFORM.require()


@pytest.fixture(scope="session")
def zips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the zip of every function. Leave it as it is."""
    folder = folder_of_the_run(tmp_path_factory) / "dist"
    with one_at_a_time(folder):
        if not folder.exists():
            build(load(), [], folder)
    return folder


@pytest.fixture(scope="session")
def google(terraform: str) -> Iterator[GoogleProvider]:
    """Return a fake Google Cloud. It remembers what exists: destroy what you apply, or take one of your own."""
    with GoogleProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def deployed(google: GoogleProvider, zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return the project's own catalogue, applied. Do not apply anything else in it."""
    workspace = Workspace(tmp_path_factory.mktemp("deployed"), google, zips)
    return applied(workspace, folder_of_the_run(tmp_path_factory) / "deployed.json")


@pytest.fixture(scope="module")
def first(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Return a first deployment in a cloud of the module's own, with three open functions and an index of a user's."""
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("first"), google, zips)
        made.edit_catalogue(open_three)
        yield applied(made, folder_of_the_run(tmp_path_factory) / "first.json")


def open_three(catalogue: dict[str, Any]) -> None:
    """Open a function to the users of one page, and two to all callers, one of which handles documents' events."""
    catalogue["functions"]["quilt"].update(auth="firebase", cors=[PAGE])
    catalogue["functions"]["philosophers"].update(public=True, enqueues=["admit", "links"])
    catalogue["functions"]["shop"].update(public=True)
    catalogue["indexes"] = {"near": {"collection": "documents", "fields": ["tags[]", "name"]}}


@pytest.fixture(scope="module")
def with_options(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Return a deployment with what is off by default: a domain, and objectives."""
    with GoogleProvider() as google:
        folder = tmp_path_factory.mktemp("options")
        options = {"domain": DOMAIN, "objectives": True}
        made = Workspace(folder, google, zips, named="dev", **options)
        yield applied(made, folder_of_the_run(tmp_path_factory) / "options.json")


@pytest.fixture(scope="session")
def resources(deployed: Workspace) -> dict[str, Resource]:
    """Return the applied resources, by address."""
    return deployed.resources()
