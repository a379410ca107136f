"""The command `signalbox`: make, run, test and deploy a project. ``make`` in the repository calls the same commands.

Each command imports what it needs when it runs. So `signalbox new` and `--help` need only the functions' packages;
`tasks-emulator` needs those of `signalbox[emulator]`, and other commands those of `signalbox[tools]`. The exit status
is 1 if something failed or was refused (the last lines describe it), and 2 for a wrong command line.
"""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from signalbox.catalogue.project import NotAProject, Project
from signalbox.catalogue.version import VERSION
from signalbox_tools.cli import flow_commands, function_commands, object_commands, schedule_commands
from signalbox_tools.cli.command_groups import Group
from signalbox_tools.cli.deployment_options import of_a_deployment, reachable, target_of
from signalbox_tools.deploy.confirmation import NOT_AGREED
from signalbox_tools.terminal_text import counted, visible, visible_lines

if TYPE_CHECKING:
    from signalbox_tools.deploy.deployment_steps import Deployment
    from signalbox_tools.deploy.deployment_target import Target
    from signalbox_tools.exports.places import Place

INTERRUPTED = "Interrupted."
RUN_AGAIN = " The state has what was created: run the command again to continue."
WITH_A_STATE = frozenset({"adopt", "bootstrap", "deploy", "destroy", "restore", "rollback"})
"""The commands that run Terraform, whose state has what was created before an interruption."""
WITHOUT_AN_EXTRA = (
    "This command needs the package {name}, which comes with the extra `{extra}`: `uv add 'signalbox[{extra}]'`, "
    "or `pip install 'signalbox[{extra}]'`."
)
EXTRAS = {"tasks-emulator": "emulator"}
"""The extras of commands that do not need `tools`."""
OF_TOOLS = frozenset({"aiohttp", "flask_swagger_ui", "httpx", "rich", "watchdog", "yaml"})
"""Modules that commands import and that only `signalbox[tools]` installs."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Refusal(click.ClickException):
    """The end of a command that failed or was refused. Only its message is printed."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file or sys.stderr)


class WrongInput(Refusal):
    """The end of a command whose arguments are wrong."""

    exit_code = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    _escape_unknown_letters()
    try:
        status = cli.main(arguments, prog_name="signalbox", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as end:
        is_asked = isinstance(end, click.Abort) and not isinstance(end.__cause__, KeyboardInterrupt)
        interrupted = INTERRUPTED + (RUN_AGAIN if _command(arguments) in WITH_A_STATE else "")
        click.echo(NOT_AGREED if is_asked else interrupted, err=True)
        return 1
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in OF_TOOLS:
            raise
        extra = EXTRAS.get(_command(arguments), "tools")
        click.echo(WITHOUT_AN_EXTRA.format(name=name, extra=extra), err=True)
        return 1
    return status if isinstance(status, int) else 0


def _command(arguments: Sequence[str] | None) -> str:
    """Return the name of the command that was run."""
    return next(iter(sys.argv[1:] if arguments is None else arguments), "")


def _escape_unknown_letters() -> None:
    """Print letters that the terminal's encoding lacks as escapes: a command must not end in the middle for them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _refusals(*kinds: type[Exception], refusal: type[Refusal] = Refusal) -> Iterator[None]:
    """Raise `refusal` with the message of `NotAProject`, `OSError` or one of `kinds`, which name the remedy."""
    caught: tuple[type[Exception], ...] = (NotAProject, OSError, *kinds)
    try:
        yield
    except BrokenPipeError:
        raise  # `| head` has read enough: click ends the command without a message
    except caught as error:
        raise refusal(visible_lines(str(error))) from error


# --- options that several commands have ---


def _as_json(help_: str) -> Callable[[Command], Command]:
    return click.option("--json", "as_json", is_flag=True, help=help_)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="signalbox")
def cli() -> None:
    """Durable workflows, limits shared by all runs, and fan-out for Python on Google Cloud, without a server.

    \b
    signalbox new my-shop        make a project
    signalbox dev                serve it on this machine
    signalbox deploy -p ID       deploy it to a Google Cloud project

    Completion: eval "$(_SIGNALBOX_COMPLETE=bash_source signalbox)"; for zsh and fish, zsh_source and fish_source.
    """


# --- a project and its code ---


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--github", is_flag=True, help="Add a workflow that tests every push.")
@click.option("--api", default="", help="Functions of the kit to call over HTTP: documents,batches or all.")
def new(folder: Path, github: bool, api: str) -> None:
    """Make a project, with a function and its test, in FOLDER."""
    from signalbox_tools.setup import new_project
    from signalbox_tools.setup.new_function_templates import CannotMake

    with _refusals(CannotMake, refusal=WrongInput):
        parts = list(dict.fromkeys(name.strip() for name in api.split(",") if name.strip()))
        click.echo(new_project.make(folder, github=github, api=parts), nl=False)


@cli.command()
@click.argument("name")
def add(name: str) -> None:
    """Make the function NAME, its test and its entry in the catalogue."""
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.setup import new_function
    from signalbox_tools.setup.new_function_templates import CannotMake

    with _refusals(CannotMake, CatalogueError, refusal=WrongInput):
        click.echo(new_function.make(name, Project.find()), nl=False)


@cli.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: tuple[str, ...]) -> int:
    """Run the project's tests; all ARGUMENTS go to pytest."""
    with _refusals():
        root = Project.find().root
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=root, check=False).returncode  # noqa: S603 (a list, no shell)


@cli.command("tasks-emulator")
@click.option("--port", type=click.IntRange(1, 65_534), default=8123, show_default=True, help="Port of gRPC.")
@click.option("--rest-port", type=click.IntRange(1, 65_535), help="Port of REST and the page; by default PORT + 1.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("cloud-tasks.sqlite"),
    show_default=True,
    help="The file with the queues and tasks, for one emulator at a time; created if it does not exist.",
)
@click.option("--queue", "queues", multiple=True, help="NAME or NAME=URL: create it; URL is for tasks without one.")
@click.option("--project", default="demo-project", show_default=True, help="The project of short names of queues.")
@click.option("--location", default="us-central1", show_default=True, help="Their location.")
@click.option("--chaos", default="", help="Faults: twice=0.1,late=0.1,reorder=0.1,lose_answers=0.1")
def tasks_emulator(
    port: int, rest_port: int | None, data: Path, queues: tuple[str, ...], project: str, location: str, chaos: str
) -> None:
    """Serve an emulator of Cloud Tasks, for any project."""
    from signalbox_tools.local.cloud_tasks import emulator
    from signalbox_tools.local.cloud_tasks.api_errors import RpcError

    web = rest_port or port + 1

    def ready() -> None:
        click.echo(f"gRPC on 127.0.0.1:{port}, REST and a page on http://127.0.0.1:{web}/; tasks stay in {data}")

    with _refusals(emulator.WrongOption, RpcError, RuntimeError, refusal=WrongInput):
        emulator.serve(port, web, data, emulator.queues_of(queues, project, location), chaos, ready)


@cli.command()
@click.argument("page", default="")
def docs(page: str) -> None:
    """List the pages, or show PAGE, such as flows. They are those of this version."""
    from signalbox_tools import pages

    with _refusals(pages.NoPage, refusal=WrongInput):
        if not page:
            click.echo(pages.listed(), nl=False)
            return
        text = pages.read(page)
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ModuleNotFoundError:  # the library alone
        click.echo_via_pager(text)
        return
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


@cli.command()
@_as_json("Print JSON.")
def doctor(as_json: bool) -> int:
    """Check this machine, the project, and what the cloud would refuse."""
    from signalbox_tools.setup import doctor as examination

    with _refusals():
        found = examination.examine(Project.find())
    click.echo(examination.to_json(found) if as_json else examination.table(found), nl=as_json)
    return 0 if all(each.well for each in found) else 1


@cli.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def cost(arguments: tuple[str, ...]) -> int:
    """Compute a month's bill; --help lists the options for numbers of operations."""
    from signalbox_tools.costs import __main__ as costs

    return costs.main(arguments)


@cli.command()
def catalogue() -> None:
    """Print the whole catalogue with its origins in the code; write its lock."""
    from signalbox.catalogue.reading import CatalogueError, databases_of, load
    from signalbox.catalogue.writing import written
    from signalbox_tools.catalogue_lock import lock, lock_of

    with _refusals(CatalogueError):
        file = Project.find().catalogue
        databases = ("", *databases_of(file))
        changed = lock(file)  # before `| head` ends the command
        for each in databases:
            click.echo(f"# --- the database {each} ---\n" * bool(each), nl=False)
            click.echo(written(load(file, database=each), places=True), nl=False)
    for place in (lock_of(file, each) for each in databases):
        click.echo(f"# {place.name} {'has changed: commit it' if place in changed else 'is up to date'}")


@cli.command()
@click.option("--upgrade", is_flag=True, help="Choose the newest versions.")
def lock(upgrade: bool) -> int:
    """Lock each function's own requirements.in, with hashes."""
    from signalbox_tools.setup import own_requirements

    with _refusals():
        return own_requirements.lock(Project.find(), upgrade=upgrade)


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the zips (default: dist in the project).")
@click.option("--catalogue", type=click.Path(path_type=Path, exists=True), help="Another catalogue file.")
@_as_json("Print JSON: a list of {name, files, size_bytes, sha256}.")
def package(names: tuple[str, ...], out: Path | None, catalogue: Path | None, as_json: bool) -> None:
    """Build the zips of the functions NAMES (default: all)."""
    from signalbox.catalogue.reading import CatalogueError, load_all
    from signalbox_tools.packaging import zip_building

    with _refusals(CatalogueError):
        file = catalogue or Project.find().catalogue
        contents = load_all(file)
        if unknown := sorted(set(names) - {name for each in contents for name in each.functions}):
            raise click.BadParameter(f"not in the catalogue: {', '.join(unknown)}", param_hint="NAMES")
        zips = zip_building.build_all(contents, names, out or contents[0].root / "dist")
    click.echo(zip_building.to_json(zips) if as_json else zip_building.table(zips), nl=as_json)


# --- on this machine ---


@cli.command()
@click.option("--port", envvar="PORT", type=click.IntRange(1, 65_535), default=8080, show_default=True)
@click.option(
    "--data", envvar="DATA", type=click.Path(path_type=Path), help="Folder of the data (default: .signalbox/data)."
)
@click.option(
    "--store", envvar="STORE", default="", help="sqlite (default: a file), or emulator (Google's, which needs Java)."
)
@click.option("--synchronous", envvar="SYNCHRONOUS", default="", help="FULL: no power cut loses a commit.")
@click.option("--log", envvar="LOG", default="", help="json: JSON lines; full: whole tracebacks.")
@click.option("--chaos", envvar="CHAOS", default="", help="Faults of queues and events: twice=0.1,late=0.1")
@click.option("--examples", envvar="EXAMPLES", is_flag=True, help="Serve the kit's examples too (in its repository).")
def dev(port: int, data: Path | None, store: str, synchronous: str, log: str, chaos: str, examples: bool) -> None:
    """Serve all functions on this machine until Ctrl-C. The data stays: `signalbox data clear` deletes it."""
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.local import injected_faults as faults
    from signalbox_tools.local import preparation, serving
    from signalbox_tools.local.stack import StackError

    try:
        store, level = preparation.chosen_store(store), preparation.chosen_level(synchronous)
    except StackError as error:
        raise click.UsageError(str(error)) from error
    try:
        faults.parse(chaos)
    except ValueError as error:
        raise click.UsageError(f"CHAOS is {chaos!r}: {error}. Write CHAOS=twice=0.1,late=0.1") from error
    with _refusals(StackError, CatalogueError):
        serving.serve(port, data, log, chaos, store, level, examples=examples)


@cli.group()
def data() -> None:
    """Export, import and delete data."""


@data.command("clear")
@click.option("--data", "folder", envvar="DATA", type=click.Path(path_type=Path), help="A stack's folder, as in `dev`.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear_data(folder: Path | None, yes: bool) -> None:
    """Delete the documents, queues and events that `signalbox dev` keeps."""
    from signalbox_tools.local.folder.data_folder import DataFolder
    from signalbox_tools.local.folder.folder_lock import FolderInUse

    with _refusals(FolderInUse):
        kept = DataFolder(folder or DataFolder.of(Project.find()))
        yes or click.confirm(f"Delete the data in {kept.path}?", abort=True)
        click.echo(f"The data in {kept.path} is deleted." if kept.clear() else f"There is no data in {kept.path}.")


@data.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--data", "folder", envvar="DATA", type=click.Path(path_type=Path), help="A stack's folder, as in `dev`.")
@of_a_deployment(required=False)
def export_data(file: Path, folder: Path | None, project: str, environment: str, region: str) -> None:
    """Write all records of a database, as of one instant, into the new FILE: a line of JSON each."""
    from signalbox_tools.exports import copying, places

    with _data_refusals():
        place = _database_of(project, environment, region) if project else places.to_export(folder, environment)
        with place as found:
            header, count = copying.export(found.database, found.name, file, _told)
    click.echo(f"{counted(count, 'record')} of {visible(found.name)}, as of {header.read_time}: {visible(str(file))}")


@data.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--data", "folder", envvar="DATA", type=click.Path(path_type=Path), help="A stack's folder, as in `dev`.")
@click.option("--store", type=click.Choice(["sqlite", "emulator"]), default=None, help="The store of a new folder.")
@click.option("--overwrite", is_flag=True, help="Replace records with the same paths, and keep all others.")
@click.option("--yes", is_flag=True, help="Do not ask before an import into a deployment.")
@of_a_deployment(required=False)
def import_data(
    file: Path,
    folder: Path | None,
    store: str | None,
    overwrite: bool,
    yes: bool,
    project: str,
    environment: str,
    region: str,
) -> None:
    """Write the records of FILE, made by `export`, into a database without records. If interrupted, run it again."""
    from signalbox_tools.exports import copying, places

    with _data_refusals():
        checked = copying.Import.of(file)
        place = (
            _database_of(project, environment, region)
            if project
            else places.to_import(folder, store or "", environment)
        )
        with place as found:
            done = checked.check(found.database, overwrite=overwrite)
            question = f"Import {counted(checked.records - done, 'record')} into {visible(found.name)}?"
            yes or not project or click.confirm(question, abort=True)
            checked.run(found.database, done, _told)
    click.echo(f"{counted(checked.records, 'record')} are in {visible(found.name)}.")


def _database_of(project: str, environment: str, region: str) -> "AbstractContextManager[Place]":
    from signalbox_tools.exports import places

    return places.of_a_deployment(reachable(project, environment, region))


def _told(line: str) -> None:
    click.echo(line, err=True)


def _data_refusals() -> AbstractContextManager[None]:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    from signalbox.adapters.sqlite.file import StoreFileError
    from signalbox.catalogue.reading import CatalogueError
    from signalbox.core.problems import Unavailable
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.exports.copying import Refused
    from signalbox_tools.exports.databases import TooOld
    from signalbox_tools.exports.files import BadFile
    from signalbox_tools.local.folder.folder_lock import FolderInUse
    from signalbox_tools.local.services.service_process import StackError
    from signalbox_tools.local.store.firestore_emulator import EmulatorError

    local = (FolderInUse, StackError, EmulatorError, StoreFileError, CatalogueError)
    return _refusals(BadFile, Refused, TooOld, Unavailable, CommandFailed, GoogleAPICallError, GoogleAuthError, *local)


@cli.command()
@of_a_deployment(required=False)
@_as_json("Print JSON.")
def status(project: str, environment: str, region: str, as_json: bool) -> None:
    """Show what runs and waits, and recent errors."""
    from rich.console import Console

    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
    from signalbox_tools.status import show_status
    from signalbox_tools.status.cloud_status import CloudSource
    from signalbox_tools.status.local_status import LocalSource

    with _refusals(NoStack, CommandFailed, CatalogueError):
        in_cloud = CloudSource(reachable(project, environment, region)) if project else None
        source = in_cloud or LocalSource(RunningStack.of_project(environment))
        if as_json:
            click.echo(show_status.status_json(source))
        else:
            show_status.show_status(source, Console(highlight=False, markup=False, emoji=False))


@cli.command()
@of_a_deployment(required=False)
@click.option("--lines", "-n", type=click.IntRange(min=1), default=100, show_default=True, help="How many log lines.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new lines (local only).")
@_as_json("Print log lines as they were written, as JSON.")
def logs(project: str, environment: str, region: str, lines: int, follow: bool, as_json: bool) -> None:
    """Show the last log lines."""
    from rich.console import Console

    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
    from signalbox_tools.local.logs.rendered_lines import Terminal
    from signalbox_tools.status import show_status
    from signalbox_tools.status.cloud_status import CloudSource

    with _refusals(NoStack, CommandFailed, CatalogueError):
        in_cloud = CloudSource(reachable(project, environment, region)) if project else None
        source = in_cloud or RunningStack.of_project(environment)
        terminal = Terminal(Console(highlight=False, markup=False, emoji=False), machine=as_json)
        show_status.show_logs(source, terminal, lines, follow=follow)


@cli.command()
@click.argument("run", metavar="FLOW/ID", nargs=-1, required=True)
@of_a_deployment(required=False)
def flow(run: tuple[str, ...], project: str, environment: str, region: str) -> None:
    """Draw the run FLOW/ID: its log and its pending commands.

    A run is named as FLOW/ID, or as FUNCTION FLOW ID.
    """
    if len(run) not in (1, 3):
        raise click.UsageError("Name one run as FLOW/ID, or as FUNCTION FLOW ID.")
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.deploy.deployment_client import SmokeTestFailed
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack
    from signalbox_tools.status import show_flow as flows
    from signalbox_tools.status.base_url import Absent

    with _refusals(Absent, NoStack, CommandFailed, SmokeTestFailed, CatalogueError):
        for line in flows.drawing(run, target_of(project, environment, region) if project else None, environment):
            click.echo(visible(line))


@cli.group(invoke_without_command=True)
@of_a_deployment(required=False)
@click.option("--replay", is_flag=True, help="Deliver the events again (in the cloud only).")
@click.pass_context
def failures(context: click.Context, project: str, environment: str, region: str, replay: bool) -> None:
    """List what was given up: tasks, calls, and events of a deployment; or retry tasks and calls."""
    if context.invoked_subcommand:
        if project or replay:
            raise click.UsageError(f"Write the options behind `{context.invoked_subcommand}`.")
        return
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.deploy.deployment_client import SmokeTestFailed
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack
    from signalbox_tools.status import dead_events
    from signalbox_tools.status import failures as listing
    from signalbox_tools.status.base_url import Absent, getter

    if replay and not project:
        raise click.UsageError("The local stack delivers an event until it is handled. Name a project: --project ID")
    with _refusals(Absent, NoStack, CommandFailed, SmokeTestFailed, CatalogueError):
        place = reachable(project, environment, region) if project else None
        events = dead_events.DeadEvents(place) if place else None
        if replay and events:
            found = events.replay()
        else:
            found = listing.lines_of(getter(place, "The deployment has no function `failures`.", environment), events)
        for line in found:
            click.echo(visible(line))


@cli.command()
@of_a_deployment(required=False)
@click.option("--port", envvar="PORT", type=int, default=0, help="Port of the pages (default: a free one).")
@click.option("--act", is_flag=True, help="The pages can cancel, resume, retry and so on, as your account.")
def console(project: str, environment: str, region: str, port: int, act: bool) -> None:
    """Serve pages that show a deployment; read-only without `--act`.

    Without a project: print the address of those that `signalbox dev` serves.
    """
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.console import serving
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack, RunningStack

    with _refusals(NoStack, CommandFailed, CatalogueError):
        if project:
            serving.serve(target_of(project, environment, region), port, acts=act)
        else:
            click.echo(f"{RunningStack.of_project(environment).base_url}console")


def _still(name: str, text: str) -> None:
    @cli.command(name, help=text)
    @of_a_deployment(required=False)
    @click.option("--schedule", "schedules", multiple=True, help="Only this schedule.")
    @click.option("--queue", "queues", multiple=True, help="Only this queue of the catalogue.")
    def still(project: str, environment: str, region: str, queues: tuple[str, ...], schedules: tuple[str, ...]) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        from signalbox.catalogue.reading import CatalogueError, database_in, load
        from signalbox_tools.deploy.programs import CommandFailed, run
        from signalbox_tools.deploy.queue_pauses import Stillness
        from signalbox_tools.local.folder.running_stack import NoStack, RunningStack

        with _refusals(NoStack, CommandFailed, CatalogueError, GoogleAPICallError):
            place = reachable(project, environment, region) if project else None
            catalogue = place.catalogue if place else load(database=database_in(environment))
            is_chosen = bool(queues or schedules)
            chosen = (
                _among("queue", catalogue.queues, queues) if is_chosen else tuple(catalogue.queues),
                _among("schedule", catalogue.schedules, schedules) if is_chosen else tuple(catalogue.schedules),
            )
            if place:
                getattr(Stillness(place, *chosen, lambda text: click.echo(place.complete(text)), run), name)()
            else:
                from signalbox_tools.local import queue_pauses

                getattr(queue_pauses, name)(RunningStack.of_project(environment), *chosen)
                counts = f"{counted(len(chosen[1]), 'schedule')} and {counted(len(chosen[0]), 'queue')}"
                click.echo(f"{name.capitalize()}d {counts} of the local stack.")


def _among(kind: str, known: Collection[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of the catalogue as they were given. An unknown one ends the command."""
    for each in names:
        if each not in known:
            raise click.BadParameter(f"the catalogue has no {kind} {each!r}. It has {', '.join(sorted(known))}.")
    return names


_still("pause", "Pause all queues and schedules, or those that are named.")
_still("resume", "Resume all queues and schedules, or those that are named.")


# --- in the cloud ---


def _run(
    place: tuple[str, str, str],
    answer: str,
    step: "Callable[[Deployment], object]",
    *,
    forward: bool = False,
    databases: bool = False,
    unchecked: bool = False,
) -> int:
    """Run a step of a deployment and return the exit status. `answer` is the answer to every question.

    With `databases`, the step is then also run for the deployments of the environment's databases. Commands of
    `signalbox` that it prints have the options of the deployment.
    """
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.deploy import deployment_target
    from signalbox_tools.deploy.confirmation import Aborted, typed
    from signalbox_tools.deploy.deployment_steps import Deployment
    from signalbox_tools.deploy.programs import CommandFailed

    other_url = os.environ.get("SIGNALBOX_BASE_URL", "")  # of the smoke test
    forward = forward or os.environ.get("FORWARD") == "1"
    unchecked = unchecked or os.environ.get("UNCHECKED") == "1"
    with _refusals(Aborted, CommandFailed, CatalogueError):
        first = target_of(*place)
        for target in deployment_target.in_order(first) if databases else (first,):
            if databases and target is not first:
                click.echo(f"--- the database {target.of_database} ---")
            try:
                options = partial(Deployment, base_url=other_url, forward=forward, unchecked=unchecked)
                done = step(options(target, partial(_say, target), typed(answer)))
            except (Aborted, CommandFailed) as error:
                raise type(error)(target.complete(str(error))) from error
            if done is False:
                return 1
    return 0


def _say(target: "Target", text: str) -> None:
    click.echo(target.complete(text))


YES = click.option("--yes", "-y", is_flag=True, help="Confirm in advance, as YES=1 and CI do.")


def _agreed(yes: bool) -> str:
    return "yes" if yes or os.environ.get("YES") == "1" or os.environ.get("CI") else ""


def _of_the_cloud(step: "Callable[[Deployment], object]", *, databases: bool = False) -> click.Command:
    """Return a command that runs a step, with the step's name and docstring, and the options of every deployment."""

    def command(project: str, environment: str, region: str, yes: bool) -> int:
        return _run((project, environment, region), _agreed(yes), step, databases=databases)

    return cli.command(step.__name__, help=step.__doc__)(of_a_deployment(required=True)(YES(command)))


@_of_the_cloud
def bootstrap(deployment: "Deployment") -> None:
    """Prepare a Google Cloud project once, for Terraform and Cloud Build."""
    deployment.bootstrap()


@partial(_of_the_cloud, databases=True)
def plan(deployment: "Deployment") -> None:
    """Show what a deployment would change, and save the plan."""
    deployment.plan()


@_of_the_cloud
def smoke(deployment: "Deployment") -> bool:
    """Smoke-test a deployment through its own URLs."""
    return deployment.smoke()


@_of_the_cloud
def adopt(deployment: "Deployment") -> bool:
    """Adopt what a killed deployment left, or a restored database, and create the rest."""
    return deployment.adopt()


@_of_the_cloud
def unlock(deployment: "Deployment") -> None:
    """Release the lock that a killed command left."""
    deployment.unlock()


@_of_the_cloud
def rollback(deployment: "Deployment") -> None:
    """Send traffic back to the revisions before the last deployment."""
    deployment.recovery.rollback()


@_of_the_cloud
def restore(deployment: "Deployment") -> None:
    """Restore the newest backup into a separate database."""
    deployment.recovery.restore()


@cli.command()
@of_a_deployment(required=True)
@YES
@click.option("--planned", is_flag=True, help="Apply the plan that `plan` saved.")
@click.option("--forward", is_flag=True, help="Move functions that are rolled back to this code, as FORWARD=1 does.")
@click.option(
    "--unchecked",
    is_flag=True,
    help="Remove functions although the tasks that wait for them could not be read, as UNCHECKED=1 does.",
)
def deploy(
    project: str, environment: str, region: str, yes: bool, planned: bool, forward: bool, unchecked: bool
) -> int:
    """Prepare, package, plan, confirm, apply, smoke-test."""
    place = (project, environment, region)
    options = {"forward": forward, "unchecked": unchecked, "databases": True}
    return _run(place, _agreed(yes), lambda each: each.deploy(planned), **options)


@cli.command()
@of_a_deployment(required=True)
@click.option("--confirm", envvar="CONFIRM", default="", help='Its name, in advance: dev, or "prod PROJECT".')
def destroy(project: str, environment: str, region: str, confirm: str) -> int:
    """Destroy a deployment after its name is typed."""
    return _run((project, environment, region), confirm, lambda deployment: deployment.destroy())


for group in (*function_commands.GROUPS, *object_commands.GROUPS, flow_commands.flows, schedule_commands.schedules):
    cli.add_command(group)
for command in (function_commands.list_failures, function_commands.show_failure, function_commands.retry_failures):
    failures.add_command(command)
