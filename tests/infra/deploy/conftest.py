"""What the tests of deploying share: stand-ins for the cloud, the local stack that answers, and one clone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gcp_storage_emulator.server import create_server

from infra.local.stack import Stack
from tests.infra.deploy.clone import Clone, surroundings
from tests.infra.deploy.gate import gate
from tests.infra.deploy.gcloud import PROJECT, TOKEN, Gcloud
from tests.infra.google_provider.server import GoogleProvider


@pytest.fixture(scope="session")
def state_url() -> Iterator[str]:
    """Give the address of Cloud Storage, with the bucket for the state."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=f"{PROJECT}-signalbox-state")
    server.start()
    yield f"http://127.0.0.1:{server._api._httpd.server_address[1]}/storage/v1/"
    server.stop()


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of functions that answer as deployed ones do: the local stack behind a gate."""
    with Stack(folder=tmp_path_factory.mktemp("stack")) as stack, gate(stack.base_url, TOKEN) as address:
        yield address


@pytest.fixture
def gcloud(tmp_path: Path) -> Gcloud:
    """Give a gcloud of the test's own, whose project is prepared."""
    return Gcloud(tmp_path / "gcloud")


@pytest.fixture
def google() -> Iterator[GoogleProvider]:
    """Give an empty cloud of the test's own."""
    with GoogleProvider() as provider:
        yield provider


@pytest.fixture
def clone(
    tmp_path: Path, google: GoogleProvider, gcloud: Gcloud, state_url: str, request: pytest.FixtureRequest
) -> Callable[..., Clone]:
    """Give a maker of clones; `answering` ones have functions behind their smoke test."""

    def make(answering: bool = False) -> Clone:
        address = request.getfixturevalue("base_url") if answering else ""
        return Clone(tmp_path / "clone", surroundings(google.environment(), gcloud.folder / "bin", state_url, address))

    return make
