"""The state is in a bucket, separate for each environment, and the next deployment finds it there."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gcp_storage_emulator.server import create_server

from signalbox_tools.local.child_processes import free_ports
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Workspace

pytestmark = pytest.mark.slow

BUCKET = "demo-project-signalbox-state"
ACCOUNT = "google_service_account.kit"


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    """Return the environment that sends Terraform to a local Cloud Storage, in which the bucket is."""
    [port] = free_ports(1)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    yield {
        "GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT": f"http://127.0.0.1:{port}/storage/v1/",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "unused",
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
    }
    server.stop()


@pytest.fixture
def clone(zips: Path, tmp_path: Path, storage: dict[str, str]) -> Iterator[Callable[..., Workspace]]:
    """Return a maker of workspaces in one cloud whose state is in the bucket, under an environment's name."""
    google = GoogleProvider()

    def make(folder: str, environment: str) -> Workspace:
        made = Workspace(tmp_path / folder, google, zips, named=environment)
        (made.infra / "backend_override.tf").unlink()
        made.environment |= storage
        made.run("init", "-input=false", f"-backend-config=bucket={BUCKET}", f"-backend-config=prefix={environment}")
        return made

    with google:
        yield make


def test_the_state_is_found_again_and_environments_do_not_see_each_other(clone: Callable[..., Workspace]) -> None:
    first = clone("first", "dev")
    first.run("apply", "-auto-approve", "-input=false", f"-target={ACCOUNT}", *first.arguments())
    listed = [
        clone(folder, name).run("state", "list").stdout for folder, name in (("second", "dev"), ("third", "prod"))
    ]
    accounts = ("build", "events", "functions", "scheduler")
    assert sorted(listed[0].splitlines())[-4:] == [f'{ACCOUNT}["{name}"]' for name in accounts]
    assert listed[1] == ""
