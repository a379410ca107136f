"""What the tests of the infrastructure share: the zips, and one deployment applied on the stand-in provider."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.catalogue import load
from infra.packaging.__main__ import build
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Resource, Workspace


@pytest.fixture(scope="session", autouse=True)
def terraform() -> str:
    """Return Terraform's path. Without it these tests fail: nothing else holds these files to anything."""
    found = shutil.which("terraform")
    assert found, "Terraform is not on this machine's PATH: install it (1.9 or newer)"
    return found


@pytest.fixture(scope="session")
def zips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the zip of every function. Leave it as it is."""
    folder = tmp_path_factory.mktemp("dist")
    build(load(), [], folder)
    return folder


@pytest.fixture(scope="session")
def google(terraform: str) -> Iterator[GoogleProvider]:
    """Return a stand-in for Google Cloud. It remembers what exists: destroy what you apply, or take one of your own."""
    with GoogleProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def deployed(google: GoogleProvider, zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return the project's own catalogue, applied. Do not apply anything else in it."""
    workspace = Workspace(tmp_path_factory.mktemp("deployed"), google, zips)
    workspace.initialise()
    workspace.apply()
    return workspace


@pytest.fixture(scope="session")
def resources(deployed: Workspace) -> dict[str, Resource]:
    """Return what was applied, by address."""
    return deployed.resources()
