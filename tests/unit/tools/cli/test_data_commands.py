"""`signalbox data export` and `import` on a command line: what they print, refuse, and ask."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Put, Query
from signalbox_tools.cli import main as commands
from signalbox_tools.cli.main import main
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.gcloud_credentials import gcloud_credentials
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.exports import places
from signalbox_tools.exports.databases import SqliteDatabase
from signalbox_tools.exports.files import IMPORTS
from signalbox_tools.local.folder.data_folder import DataFolder
from signalbox_tools.local.folder.folder_lock import locked
from signalbox_tools.local.stack import Stack, StackError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a project's data, which has two documents."""
    (tmp_path / "signalbox.yaml").write_text("format: 1\n")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".signalbox" / "data"
    folder.mkdir(parents=True)
    fill(folder, "documents/a", "documents/b")
    return folder


def fill(folder: Path, *paths: str) -> None:
    with closing(SqliteStore(folder / "store.sqlite")) as store:
        store.commit([Put(path, {"n": 1}) for path in paths])


def ids(folder: Path) -> list[str]:
    with closing(SqliteStore(folder / "store.sqlite")) as store:
        return [each.id for each in store.query(Query("documents"))]


def test_the_data_of_a_project_is_copied_into_another_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "export", "all.ndjson"]) == 0
    assert f"2 records of {data}, as of 20" in capsys.readouterr().out
    assert main(["data", "import", "all.ndjson", "--data", "other"]) == 0
    assert capsys.readouterr().out == f"2 records are in {tmp_path / 'other'}.\n"
    assert ids(tmp_path / "other") == ["a", "b"]
    assert DataFolder(tmp_path / "other").store == "sqlite"
    assert main(["data", "import", "all.ndjson"]) == 1
    assert "The database has records, such as documents/a." in capsys.readouterr().err
    assert main(["data", "import", "all.ndjson", "--overwrite"]) == 0
    assert main(["data", "import", "all.ndjson", "--store", "emulator"]) == 1
    assert "are those of another store: --store sqlite" in capsys.readouterr().err


def test_a_folder_without_data_has_nothing_to_export(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "export", "all.ndjson", "--data", "absent"]) == 1
    assert capsys.readouterr().err.startswith("There is no data in ")
    assert not Path("absent").exists()


def test_a_folder_is_exported_while_a_stack_uses_it_and_is_not_imported_into(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(data):
        assert main(["data", "export", "all.ndjson"]) == 0
        assert main(["data", "import", "all.ndjson"]) == 1
    assert "Another local stack" in capsys.readouterr().err


def test_the_data_of_another_database_is_named_by_the_environment(data: Path) -> None:
    Path("signalbox.yaml").write_text("functions: {cards: {database: payments}, boats: {database: ships}}\n")
    payments = data / "databases" / "payments"
    payments.mkdir(parents=True)
    fill(payments, "documents/p")
    assert main(["data", "export", "payments.ndjson", "-e", "dev.payments"]) == 0
    assert main(["data", "import", "payments.ndjson", "-e", "dev.ships"]) == 0
    assert ids(data / "databases" / "ships") == ["p"]
    assert main(["data", "import", "payments.ndjson", "-e", "dev.ships", "--data", "other"]) == 0
    assert ids(Path("other", "databases", "ships")) == ["p"]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("dev.shops", "No function has the database 'shops'; did you mean 'ships'?"),
        ("dev.../x", "names no environment"),
        ("dev.", "names no environment"),
    ],
)
def test_data_is_not_imported_into_a_database_that_no_function_has(
    data: Path, environment: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("signalbox.yaml").write_text("functions: {boats: {database: ships}}\n")
    assert main(["data", "export", "all.ndjson"]) == 0
    before = set(data.parent.rglob("*"))
    assert main(["data", "import", "all.ndjson", "-e", environment]) == 1
    assert said in capsys.readouterr().err
    assert set(data.parent.rglob("*")) == before


def test_a_file_that_is_no_export_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.ndjson").write_text("{}\n")
    assert main(["data", "import", "mine.ndjson"]) == 1
    assert capsys.readouterr().err == "Line 1 is not the beginning of an export by `signalbox data export`.\n"
    assert main(["data", "import", "absent.ndjson"]) == 1


@pytest.mark.parametrize(("answer", "arrived"), [("y\n", ["a", "b"]), ("n\n", [])])
def test_an_import_into_a_deployment_asks_first(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, arrived: list[str]
) -> None:
    database = tmp_path / "cloud"
    database.mkdir()

    @contextmanager
    def of_a_deployment(target: object) -> Iterator[places.Place]:
        with closing(SqliteDatabase(database / "store.sqlite")) as opened:
            yield places.Place(opened, f"the database {target}")

    monkeypatch.setattr(commands, "reachable", lambda *given: "/".join(given))
    monkeypatch.setattr(places, "of_a_deployment", of_a_deployment)
    assert main(["data", "export", "all.ndjson"]) == 0
    arguments = ["data", "import", "all.ndjson", "-p", "shop", "-e", "prod"]
    result = CliRunner().invoke(commands.cli, arguments, input=answer)
    assert "Import 2 records into the database shop/prod/? [y/N]" in result.output
    assert ids(database) == arrived


def test_a_stack_refuses_a_folder_with_half_of_an_import(data: Path, tmp_path: Path) -> None:
    fill(data, f"{IMPORTS}/one")
    catalogue = tmp_path / "infra" / "catalogue.yaml"
    catalogue.parent.mkdir()
    catalogue.write_text("functions: {}\n")
    stack = Stack(folder=tmp_path / "state", catalogue=catalogue, data=data, store="sqlite")
    with pytest.raises(StackError, match=r"An import into .* was interrupted: run it again"), stack:
        pass


def test_credentials_are_renewed_by_gcloud_before_they_end(tmp_path: Path) -> None:
    tokens = iter([Outcome(0, "first\n"), Outcome(0, "second\n"), Outcome(1, error="signed out")])
    target = Target("shop", "dev", "us-central1", None, tmp_path)
    credentials = gcloud_credentials(target, lambda *_, **__: next(tokens))
    assert (credentials.token, credentials.valid) == ("first", True)
    assert credentials.expiry is not None
    credentials.expiry -= timedelta(minutes=4)
    assert not credentials.valid
    credentials.refresh(None)
    assert (credentials.token, credentials.valid) == ("second", True)
    with pytest.raises(CommandFailed, match="signed out"):
        credentials.refresh(None)
