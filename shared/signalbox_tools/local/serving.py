"""Serve all functions on this machine until Ctrl-C. Code and catalogue are reloaded when they change."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from signalbox.adapters.settings import SQLITE
from signalbox.adapters.sqlite.file import Synchronous
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import databases_of, load_all
from signalbox_tools.cli.flow_replay import misfits_of
from signalbox_tools.local.child_processes import free_port
from signalbox_tools.local.folder.data_folder import EMULATOR, DataFolder
from signalbox_tools.local.folder.running_stack import NoStack, RunningStack, folder_of
from signalbox_tools.local.kept_threads import kept_thread
from signalbox_tools.local.logs.follower import LogFollower
from signalbox_tools.local.logs.rendered_lines import Terminal
from signalbox_tools.local.logs.tracebacks import cut
from signalbox_tools.local.reloading.dev_loop import DevLoop
from signalbox_tools.local.scheduler import schedule_lines
from signalbox_tools.local.stack import Stack, StackError

FOUND_BY_PAGES = (
    "  A page of any site that a browser here shows can find the emulator and change its data: this machine has no\n"
    "  other address for it than 127.0.0.1. Close other sites, or start without STORE=emulator.\n"
)


def serve(
    port: int, data: Path | None, log: str, faults: str, store: str, synchronous: Synchronous, *, examples: bool = False
) -> None:
    """Serve the project's functions until Ctrl-C, with the kit's examples or without them; log to standard output.

    `data` is the folder that keeps documents, queues and events. If it is None, a SQLite store has one in the project,
    and an emulator has none. `log` is ``json`` for the unrendered lines, ``full``
    for whole tracebacks. `faults` has the form that `injected_faults.parse` reads. Raises `CatalogueError`, and
    `StackError` with a traceback that is cut like those in the log.
    """
    try:
        with contextlib.suppress(KeyboardInterrupt):
            _run(port, data, log, faults, store, synchronous, examples=examples)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise StackError(_running() or f"{where}{error.strerror or error}") from error
    except StackError as error:
        trace = error.trace if log == "full" else cut(error.trace)
        raise StackError(f"{error}\n{trace}".rstrip()) from error


def _running() -> str:
    """Return the address of this project's running stack, or an empty text."""
    with contextlib.suppress(NoStack, OSError):
        running = RunningStack.of_project()
        return f"The local stack of this project runs already: {running.base_url} (process {running.pid})"
    return ""


def _run(
    port: int, data: Path | None, log: str, faults: str, store: str, synchronous: Synchronous, *, examples: bool
) -> None:
    terminal = Terminal(Console(highlight=False, markup=False, emoji=False), log == "json", log == "full")
    project = Project.find()
    if data is None and store == SQLITE:
        data = DataFolder.of(project)
    sys.stdout.write("Starting: the store, the queues and all functions take a few seconds.\n")
    sys.stdout.flush()
    options = Options(faults, store, synchronous)
    with _files_of_this_user_only(), contextlib.ExitStack() as others:
        served: dict[str, str] = {}
        for database in databases_of(project.catalogue):
            other = others.enter_context(_of_database(database, project, data, options, terminal))
            served[database] = other.base_url
            _print_functions(other, f"Serving the database {database}, with its console at {other.base_url}console")
        stack = options.stack(port, project.state, data, examples=examples, others=served)
        loop = DevLoop(stack, terminal.announce, misfits=misfits_of)
        loop.watch()  # before the stack starts, which takes seconds: a file may be saved meanwhile
        with stack:
            _serve(stack, data, terminal, loop)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the stacks of all databases."""

    faults: str
    store: str
    synchronous: Synchronous

    def stack(self, port: int | None, folder: Path, data: Path | None, **more: Any) -> Stack:
        return Stack(port, folder, self.faults, data=data, store=self.store, synchronous=self.synchronous, **more)

    def of_database(self, database: str, project: Project, data: Path | None) -> Stack:
        """Return the stack of the functions of a database, at the port of its last one. Raises `StackError`."""
        kept = DataFolder(data).of_database(database) if data else None
        port = (DataFolder(kept).port if kept else None) or free_port()
        try:
            return self.stack(port, folder_of(project, database), kept, database=database)
        except OSError as error:
            raise StackError(
                _running()
                or f"The port {port}, at which the database {database} is served, is taken, and stored tasks call it: "
                "end the program that has it, or delete the data: signalbox data clear"
            ) from error


@contextlib.contextmanager
def _of_database(
    database: str, project: Project, data: Path | None, options: Options, terminal: Terminal
) -> Iterator[Stack]:
    """Serve the functions of another database, reload them when they change, and show their logs."""
    stack = options.of_database(database, project, data)
    loop = DevLoop(stack, terminal.announce, misfits=misfits_of, database=database)
    loop.watch()
    with stack:
        follower = LogFollower([stack.folder / f"{name}.log" for name in stack.service_names], terminal.show)
        follower.start()
        loop.start()
        kept_thread(database, partial(announce_end, stack, database, terminal.announce)).start()
        try:
            yield stack
        finally:
            loop.stop()
            follower.stop()


def announce_end(stack: Stack, database: str, announce: Callable[[str, str], None]) -> None:
    """Wait until a database's stack ends, and announce it if a service has failed. The other stacks continue."""
    try:
        stack.wait()
    except StackError as error:
        announce(f"the database {database} is no longer served, so start `signalbox dev` again: {error}", error.trace)


def _print_functions(stack: Stack, heading: str) -> None:
    width = max(map(len, stack.urls), default=0)
    sys.stdout.write(f"{heading}\n" + "".join(f"  {name:{width}}  {url}\n" for name, url in stack.urls.items()))


@contextlib.contextmanager
def _files_of_this_user_only() -> Iterator[None]:
    """Make files and folders, also those of the services, which no other user of the machine can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _serve(stack: Stack, data: Path | None, terminal: Terminal, loop: DevLoop) -> None:
    follower = LogFollower([stack.folder / f"{name}.log" for name in stack.service_names], terminal.show)
    _print_urls(stack, data)
    follower.start()
    loop.start()
    try:
        stack.wait()
    finally:
        loop.stop()
        follower.stop()
        if data and stack.store == EMULATOR:
            sys.stdout.write(f"\nStopping: the data is saved in {data} when this command ends, within a few seconds.\n")
            sys.stdout.flush()


def _print_schedules() -> None:
    """Print when the schedules of the project run. Those of the kit are left out."""
    catalogues = load_all()
    own = [each for catalogue in catalogues for each in catalogue.schedules.values() if each.task]
    for number, line in enumerate(schedule_lines(own, datetime.now(UTC))):
        sys.stdout.write(f"{'          ' if number else 'Schedules:'} {line}\n")
    if own:
        callers = catalogues[0].functions.get("tasks")
        needs = "" if callers and "people" in callers.invoked_by else ", with `api: [tasks]` in the catalogue"
        sys.stdout.write(f"           One now: signalbox schedules run NAME{needs}\n")


def _print_urls(stack: Stack, data: Path | None) -> None:
    width = max(map(len, stack.urls), default=0)
    _print_functions(stack, f"Serving {stack.base_url} (store: {stack.store})")
    sys.stdout.write(f"  {'docs':{width}}  {stack.base_url}docs (every call, with a form to try it)\n")
    sys.stdout.write(f"  {'console':{width}}  {stack.base_url}console (pages that show what happens)\n")
    _print_schedules()
    stays = f"{data} keeps the data" + ("" if stack.store == EMULATOR else "; signalbox data clear deletes it")
    documents = stays if data else "Documents are in memory; --data FOLDER keeps them"
    if stack.settings.firestore_emulator.startswith("127.0.0.1:"):
        sys.stdout.write(FOUND_BY_PAGES)
    sys.stdout.write(f"Logs: {stack.folder}. {documents}. Changed files are reloaded. Stop with Ctrl-C.\n")
    sys.stdout.flush()
