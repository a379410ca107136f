"""What the tests of deploying share: fakes of the cloud, the local stack that answers, and one clone."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gcp_storage_emulator.server import create_server

from signalbox_tools.deploy import deployment_steps, deployment_target, smoke
from tests.infra.deploy.deployed_site import PREFIX, Site
from tests.infra.deploy.gcloud import PROJECT, TOKEN, Gcloud
from tests.infra.deploy.identity_gate import gate
from tests.infra.deploy.user_clone import Clone, fake_environment
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA, Workspace, add_examples


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
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> deployment_target.Target:
    """Return an environment with examples, whose file is a copy; nothing is packaged, and a smoke test passes."""
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    (tmp_path / "infra").mkdir()
    for each in INFRA.iterdir():
        if each.name != "environments":
            (tmp_path / "infra" / each.name).symlink_to(each)
    shutil.copytree(INFRA / "environments", tmp_path / "infra" / "environments")
    add_examples(tmp_path / "infra" / "environments")
    return deployment_target.read(PROJECT, "dev", root=tmp_path)


@pytest.fixture
def own_google() -> Iterator[GoogleProvider]:
    """Return an empty cloud of the test's own."""
    with GoogleProvider() as provider:
        yield provider


@pytest.fixture
def clone(tmp_path: Path, own_google: GoogleProvider, gcloud: Gcloud, state_url: str) -> Clone:
    """Return a clone whose functions do not answer."""
    return Clone(tmp_path / "clone", fake_environment(own_google.environment(), gcloud.folder / "bin", state_url, ""))


@pytest.fixture(scope="module")
def site(deployed: Workspace, state_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a clone whose functions answer from its deployment on, which is still to come; prod is there already."""
    folder, google = tmp_path_factory.mktemp("site"), deployed.google
    with contextlib.ExitStack() as closing:
        gcloud = Gcloud(folder / "gcloud").folder / "bin"
        address = closing.enter_context(gate(lambda: made.stack.base_url, TOKEN, PREFIX))
        kit = Clone(folder / "clone", fake_environment(google.environment(), gcloud, state_url, address))
        made = Site(kit, google, folder / "stack", closing)
        yield made
