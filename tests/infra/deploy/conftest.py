"""What the tests of deploying share: stand-ins for the cloud, the local stack that answers, and one clone."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from gcp_storage_emulator.server import create_server

from tests.infra.deploy.clone import Clone, surroundings
from tests.infra.deploy.gate import gate
from tests.infra.deploy.gcloud import PROJECT, TOKEN, Gcloud
from tests.infra.deploy.site import PREFIX, Site
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Workspace


@pytest.fixture(scope="session")
def state_url() -> Iterator[str]:
    """Return the address of Cloud Storage, with the bucket for the state."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=f"{PROJECT}-signalbox-state")
    server.start()
    yield f"http://127.0.0.1:{server._api._httpd.server_address[1]}/storage/v1/"
    server.stop()


@pytest.fixture
def gcloud(tmp_path: Path) -> Gcloud:
    """Return a gcloud of the test's own, whose project is prepared."""
    return Gcloud(tmp_path / "gcloud")


@pytest.fixture
def own_google() -> Iterator[GoogleProvider]:
    """Return an empty cloud of the test's own."""
    with GoogleProvider() as provider:
        yield provider


@pytest.fixture
def clone(tmp_path: Path, own_google: GoogleProvider, gcloud: Gcloud, state_url: str) -> Clone:
    """Return a clone whose functions do not answer."""
    return Clone(tmp_path / "clone", surroundings(own_google.environment(), gcloud.folder / "bin", state_url, ""))


@pytest.fixture(scope="module")
def site(deployed: Workspace, state_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a clone whose functions answer from its deployment on, which is still to come; prod is there already."""
    folder, google = tmp_path_factory.mktemp("site"), deployed.google
    with contextlib.ExitStack() as closing:
        gcloud = Gcloud(folder / "gcloud").folder / "bin"
        address = closing.enter_context(gate(lambda: place.stack.base_url, TOKEN, PREFIX))
        kit = Clone(folder / "clone", surroundings(google.environment(), gcloud, state_url, address))
        place = Site(kit, google, folder / "stack", closing)
        yield place
