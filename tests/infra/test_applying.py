"""Terraform accepts the files, brings them about, finds nothing left to do, and can take everything away again."""

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA, Workspace


def test_the_files_are_formatted(deployed: Workspace) -> None:
    assert deployed.run("fmt", "-check", "-recursive", str(INFRA), check=False).stdout == ""


def test_what_was_applied_leaves_nothing_to_do(deployed: Workspace) -> None:
    assert not deployed.differs()


def test_it_can_all_be_destroyed_and_made_again(zips, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with GoogleProvider() as google:
        workspace = Workspace(tmp_path, google, zips)
        workspace.initialise()
        workspace.apply()
        workspace.destroy()
        assert google.cloud.existing == set()
