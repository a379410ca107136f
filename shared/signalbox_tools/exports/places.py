"""The databases that the command line names: that of a deployment, and that of the stack on this machine.

The documents of Google's emulator are in a folder between two stacks. Then an emulator without functions is started for
the time of an export or import.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from signalbox.adapters.settings import SQLITE, Settings, from_environment
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import database_in, databases_of, load
from signalbox.catalogue.whole_catalogue import closest
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.gcloud_credentials import gcloud_credentials
from signalbox_tools.deploy.programs import run
from signalbox_tools.exports.copying import Refused
from signalbox_tools.exports.databases import Database, FirestoreDatabase, SqliteDatabase
from signalbox_tools.local.folder.data_folder import EMULATOR, DataFolder
from signalbox_tools.local.folder.folder_lock import locked
from signalbox_tools.local.folder.running_stack import FILE_OF_THE_STORE, NoStack, RunningStack
from signalbox_tools.local.preparation import installed_emulator
from signalbox_tools.local.services.function_settings import settings_of


@dataclass(frozen=True, slots=True)
class Place:
    """An open database, with its name for people."""

    database: Database
    name: str


@contextmanager
def of_a_deployment(target: Target) -> Iterator[Place]:
    """Open the database of a deployment as gcloud's account. Raises `CommandFailed`."""
    credentials = gcloud_credentials(target, run)
    with closing(FirestoreDatabase(target.project, target.database, credentials=credentials)) as database:
        yield Place(database, f"the database {target.database} of {target.project}")


@contextmanager
def to_export(folder: Path | None, environment: str = "") -> Iterator[Place]:
    """Open the database of a folder, or that of the project's stack, which may run.

    An environment ``NAME.DATABASE`` names the functions of another database. Raises `Refused`, `FolderInUse` for the
    folder of a running emulator, `StackError` and `StoreFileError`.
    """
    if folder is None:
        with suppress(NoStack):
            with closing(_of_a_stack(RunningStack.of_project(environment))) as database:
                yield Place(database, "the running stack")
            return
    data = _folder(folder, environment)
    if data.store == EMULATOR:
        with locked(data.path), _emulator(data, environment) as (database, _):
            yield Place(database, str(data.path))
    elif data.store_file.is_file():
        with closing(SqliteDatabase(data.store_file)) as database:
            yield Place(database, str(data.path))
    else:
        raise Refused(f"There is no data in {data.path}.")


def _of_a_stack(stack: RunningStack) -> Database:
    settings = from_environment(stack.environment)
    if settings.firestore_emulator == SQLITE:
        return SqliteDatabase(Path(stack.environment[FILE_OF_THE_STORE]))
    return FirestoreDatabase(settings.project, settings.database, settings.firestore_emulator)


@contextmanager
def to_import(folder: Path | None, store: str, environment: str = "") -> Iterator[Place]:
    """Open the database of a folder, or of the project, which no stack may use.

    `store` is ``sqlite``, ``emulator``, or empty for the store of the folder. Records are kept when the context is left
    without an exception. Raises `Refused`, `FolderInUse`, `StackError` and `StoreFileError`.
    """
    data = _folder(folder, environment)
    chosen = store or data.store or SQLITE
    if data.store not in ("", chosen):
        raise Refused(f"The documents in {data.path} are those of another store: --store {data.store}")
    with locked(data.path):
        if chosen == EMULATOR:
            with _emulator(data, environment) as (database, settings):
                yield Place(database, str(data.path))
                data.save(settings)
        else:
            data.claim(SQLITE)
            with closing(SqliteDatabase(data.store_file)) as database:
                yield Place(database, str(data.path))


def _folder(path: Path | None, environment: str) -> DataFolder:
    own = DataFolder((path or DataFolder.of(Project.find())).resolve())
    if not (database := database_in(environment)):
        return own
    if database not in (known := databases_of(Project.find().catalogue)):
        raise Refused(f"No function has the database {database!r}{closest(database, known)}")
    return DataFolder(own.of_database(database))


@contextmanager
def _emulator(data: DataFolder, environment: str) -> Iterator[tuple[Database, Settings]]:
    """Start an emulator with the documents of a folder, and without functions."""
    with installed_emulator().start(data.seed) as running:
        settings = replace(settings_of(load(database=database_in(environment))), firestore_emulator=running.host)
        data.correct(settings)
        with closing(FirestoreDatabase(settings.project, settings.database, running.host)) as database:
            yield database, settings
