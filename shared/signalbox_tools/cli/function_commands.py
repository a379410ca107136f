"""The commands that call functions with the package's client: documents, semaphores, rates, failures and batches."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from signalbox.catalogue.project import NotAProject
from signalbox_tools.cli.command_groups import Group
from signalbox_tools.cli.deployment_options import of_a_deployment, target_of
from signalbox_tools.terminal_text import visible, visible_lines

if TYPE_CHECKING:
    from signalbox.client import Client
    from signalbox_tools.console.identity_tokens import Tokens

CONNECT_SECONDS_MAX = 5.0
"""The time in which an address must accept a connection."""

WRONG_URL = "correct --url or SIGNALBOX_URL"

Command = TypeVar("Command", bound=Callable[..., Any])


def of_a_place(command: Command) -> Command:
    """Add the options that name a deployment; without them, the local stack is called."""
    url = click.option("--url", envvar="SIGNALBOX_URL", default="", help="A base URL, without a project folder.")
    return of_a_deployment(required=False)(url(command))


@contextmanager
def opened(url: str, project: str, environment: str, region: str) -> Iterator["Client"]:
    """Return a client of a place. If a call fails, the command ends with the error's message."""
    from signalbox.client import ApiError
    from signalbox.client.identity import NoIdentity

    try:
        with _client_of(url, project, environment, region) as client:
            yield client
    except BrokenPipeError:
        raise  # `| head` has read enough: click ends the command without a message
    except (ApiError, NoIdentity, NotAProject, OSError, ValueError) as error:
        raise click.ClickException(visible_lines(str(error))) from error
    except KeyboardInterrupt as error:
        click.echo("Stopped. What was sent before has its effect.", err=True)
        raise click.exceptions.Exit(1) from error


def _client_of(url: str, project: str, environment: str, region: str) -> "Client":
    from signalbox.client import Client
    from signalbox_tools.console.identity_tokens import Tokens
    from signalbox_tools.deploy.deployment_client import tokens_to_call
    from signalbox_tools.deploy.programs import CommandFailed, run
    from signalbox_tools.local.folder.running_stack import NoStack, RunningStack

    if url:
        if url.lower().startswith("https:"):  # nothing is sent to a host that has not been confirmed
            return Client(_accepting(url), token=_token_for_any_host)
        return Client(_answering(url, WRONG_URL))
    try:
        if not project:
            running = RunningStack.of_project(environment).base_url
            return Client(_answering(running, "start the stack again with `signalbox dev`"))
        place = target_of(project, environment, region)
        return Client(place.base_url, token=_token_for(Tokens(partial(tokens_to_call, place, run))))
    except (CommandFailed, NoStack) as error:
        raise click.ClickException(str(error)) from error


def _answering(url: str, remedy: str) -> str:
    """Return an address at which something answers. Raises `ClickException`: the client itself tries for a minute."""
    import httpx

    try:
        httpx.head(url, timeout=CONNECT_SECONDS_MAX)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise click.ClickException(f"{url} does not answer ({error}): {remedy}.") from error
    except httpx.HTTPError:  # something is there, and the client reports its errors
        pass
    return url


def _accepting(url: str) -> str:
    """Return an address that accepts a connection, or for which a proxy may. Raises `ClickException`."""
    import socket
    from urllib.request import getproxies

    import httpx

    try:
        parts = httpx.URL(url)
        if not {"https", "all"} & getproxies().keys():
            socket.create_connection((parts.host, parts.port or 443), CONNECT_SECONDS_MAX).close()
    except (OSError, UnicodeError, httpx.InvalidURL) as error:
        raise click.ClickException(f"{url} does not answer ({error}): {WRONG_URL}.") from error
    return url


def _token_for_any_host(url: str) -> str:
    """Return a token for a function at an address that no project derives. A person confirms its host first."""
    from signalbox.client import identity
    from signalbox_tools.deploy import token_hosts
    from signalbox_tools.deploy.programs import CommandFailed

    try:
        return identity.service_account_token(url)
    except identity.NoServiceAccount as no_account:
        try:
            token_hosts.confirm(url)
        except CommandFailed as error:
            raise identity.NoIdentity(str(error)) from error
        return identity.persons_token(no_account)


def _token_for(tokens: "Tokens") -> Callable[[str], str]:
    """Return the function that gets tokens for a client.

    It serves a command that runs for longer than a token is valid.
    """
    from signalbox.client.identity import NoIdentity
    from signalbox_tools.deploy.programs import CommandFailed

    def token(url: str) -> str:
        try:
            return tokens.token(url)
        except CommandFailed as error:
            raise NoIdentity(str(error)) from error

    return token


def show(value: Any) -> None:
    """Print a value as JSON: on a terminal with indents, else in one line."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    click.echo(visible_lines(text))


ALIGNED_TOGETHER = 200
"""The lines that are read before the first is printed on a terminal, to know the widths of the columns."""


def show_each(values: Iterable[Any], columns: tuple[str, ...], *, as_json: bool) -> None:
    """Print values as lines of columns, or as one line of JSON each.

    On a terminal, the columns are aligned under a head. Programs get neither.
    """
    if as_json:
        lines: Iterator[str] = (json.dumps(value, ensure_ascii=False) for value in values)
    else:
        rows = ([_cell(value.get(name)) for name in columns] for value in values)
        lines = _aligned(rows, columns) if sys.stdout.isatty() else ("  ".join(row) for row in rows)
    for line in lines:
        click.echo(visible(line))


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _aligned(rows: Iterator[list[str]], columns: Sequence[str]) -> Iterator[str]:
    """Return a head and rows, whose columns have the widths of the first rows."""
    head = [name.replace("_", " ").upper() for name in columns]
    first = [head, *islice(rows, ALIGNED_TOGETHER)]
    widths = [max(map(len, column)) for column in zip(*first, strict=True)]
    for row in chain(first if len(first) > 1 else [], rows):
        yield "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


SHOWN = 200
"""The characters of a wrong argument that its message quotes."""


def json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{text[:SHOWN]!r} is not JSON: {error}") from error


def arguments_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse NAME=VALUE, where a value that is JSON is that JSON, and any other one a text."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} must be NAME=VALUE")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
        except RecursionError as error:
            raise click.BadParameter(f"{pair[:SHOWN]!r} is nested too deeply") from error
    return found


SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""The units of a time span in an option."""


def time_of(text: str) -> datetime:
    """Parse a time: a span before now, such as 2h, or a time with a time zone."""
    try:
        if text[:-1].isdecimal() and text[-1:] in SECONDS and len(text) <= 8:
            return datetime.now(UTC) - timedelta(seconds=int(text[:-1]) * SECONDS[text[-1]])
        moment = datetime.fromisoformat(text)
    except (OverflowError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} must be 30m, 2h or 7d, or a time with a zone, as 2026-01-31T09:30:00Z")
    return moment


class NothingToDo(Exception):
    """An action that would have no effect. The message has the reason."""


def on_each(ids: Sequence[str], act: Callable[[str], object], done: str = "done.") -> None:
    """Act on each, with a progress bar. Refusals are printed and set the status to 1; the other calls continue.

    `done` ends the last line, after the number of those that were not refused.
    """
    from signalbox.client import ApiError

    if not ids:
        click.echo("There is nothing to do.", err=True)
        return
    refused = []
    with click.progressbar(ids, file=sys.stderr) as bar:
        for each in bar:
            try:
                act(each)
            except (ApiError, NothingToDo) as error:
                refused.append(f"{each}: {error}")
    for line in (*refused, f"{len(ids) - len(refused):,} of {len(ids):,} {done}"):
        click.echo(visible(line), err=True)
    if refused:
        raise click.exceptions.Exit(1)


JSON_LINES = click.option("--json", "as_json", is_flag=True, help="Print JSON, one value a line.")


# --- documents ---


@click.group(cls=Group)
def documents() -> None:
    """Read, store and find documents."""


@documents.command()
@click.argument("key")
@of_a_place
def get(key: str, **place: str) -> None:
    """Print a document."""
    with opened(**place) as client:
        show(dict(client.documents.get(key)))


@documents.command()
@click.argument("key")
@click.argument("content", required=False)
@of_a_place
def put(key: str, content: str | None, **place: str) -> None:
    """Store CONTENT, a JSON object, under KEY; without it, standard input."""
    found = json_of(sys.stdin.read() if content is None else content)
    if not isinstance(found, dict):
        raise click.BadParameter("a document is a JSON object")
    with opened(**place) as client:
        show(dict(client.documents.put(key, found)))


@documents.command()
@click.argument("key")
@of_a_place
def delete(key: str, **place: str) -> None:
    """Delete a document."""
    with opened(**place) as client:
        client.documents.delete(key)


@documents.command()
@click.argument("key")
@of_a_place
def versions(key: str, **place: str) -> None:
    """Print the versions of a document as JSON, one a line."""
    with opened(**place) as client:
        show_each(client.documents.versions(key), (), as_json=True)


@documents.command("version")
@click.argument("key")
@click.argument("version")
@of_a_place
def show_version(key: str, version: str, **place: str) -> None:
    """Print the document as it was in one VERSION."""
    with opened(**place) as client:
        show(client.documents.version(key, version))


@documents.command()
@click.argument("key")
@click.argument("version")
@of_a_place
def restore(key: str, version: str, **place: str) -> None:
    """Store the content of one VERSION again, as a new version."""
    with opened(**place) as client:
        show(dict(client.documents.restore(key, version)))


@documents.command()
@click.argument("conditions", nargs=-1, metavar="[FIELD==VALUE]...")
@click.option("--order-by", help="A field; -FIELD: the largest first.")
@click.option("--count", is_flag=True, help="Print the number alone.")
@of_a_place
def query(conditions: tuple[str, ...], order_by: str | None, count: bool, **place: str) -> None:
    """Print the documents that meet all conditions, one a line."""
    with opened(**place) as client:
        if count:
            show(client.documents.count(*conditions))
        else:
            found = client.documents.find(*conditions, order_by=order_by)
            show_each((dict(document) for document in found), (), as_json=True)


@documents.command()
@click.argument("file", type=click.File("r", encoding="utf-8-sig"), default="-")
@of_a_place
def load(file: IO[str], **place: str) -> int:
    """Store the documents of FILE, one JSON object with a `key` a line.

    Refused ones are printed, and the status is 1.
    """
    with opened(**place) as client, _progress(file) as lines:
        report = client.documents.load(_documents(lines))
    for key, problem in report.refused:
        click.echo(visible(f"{key}: {problem.get('detail') or problem.get('title')}"), err=True)
    click.echo(f"{report.stored:,} stored, {len(report.refused):,} refused", err=True)
    return 1 if report.refused else 0


def _documents(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Parse a document from each line. The documents before an invalid line may be stored already."""
    done = 0
    try:
        for line in lines:
            if line.strip():
                yield _document(line)
            done += 1
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"A line after line {done:,} is not UTF-8. {PARTLY}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"Line {done + 1:,} is not JSON, or no document: {error}. {PARTLY}") from error


PARTLY = "Documents before it may be stored; to load the corrected file stores them again."


def _document(text: str) -> dict[str, Any]:
    found = json.loads(text, parse_constant=_no_number)
    if not isinstance(found, dict):
        raise ValueError(f"{text.strip()[:40]} is not an object")  # noqa: TRY004 (as JSON that cannot be parsed)
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@contextmanager
def _progress(file: IO[str]) -> Iterator[Iterable[str]]:
    """Show how much of a file was read, if it has a size and standard error is a terminal."""
    if not (file.seekable() and sys.stderr.isatty()):
        yield file
        return
    with click.progressbar(length=os.fstat(file.fileno()).st_size, file=sys.stderr, label="Loading") as bar:

        def counted() -> Iterator[str]:
            for line in file:
                yield line
                bar.update(len(line.encode()))

        yield counted()


# --- semaphores ---


@click.group(cls=Group)
def semaphores() -> None:
    """Create, show and pause semaphores, and run a command under a lease."""


@semaphores.command("create")
@click.argument("name")
@click.option("--permits", type=int, required=True, help="The number of permits.")
@click.option("--lease", "lease_seconds", default=600.0, show_default=True, help="Seconds of a lease.")
@of_a_place
def create_semaphore(name: str, permits: int, lease_seconds: float, **place: str) -> None:
    """Create a semaphore, or set its limits. Leases and waiters stay."""
    with opened(**place) as client:
        show(client.semaphore(name).ensure(permits, lease_seconds))


@semaphores.command("ls")
@click.option("--waiting", is_flag=True, help="Only those that have waiters.")
@JSON_LINES
@of_a_place
def list_semaphores(waiting: bool, as_json: bool, **place: str) -> None:
    """List semaphores: name, permits, free ones, and waiters with --waiting."""
    columns = ("name", "permits", "free", *(("waiting",) if waiting else ()))
    with opened(**place) as client:
        show_each(client.semaphores.list(waiting=waiting), columns, as_json=as_json)


@semaphores.command("show")
@click.argument("name")
@of_a_place
def show_semaphore(name: str, **place: str) -> None:
    """Print a semaphore with its leases and waiters."""
    with opened(**place) as client:
        show(client.semaphore(name).show())


@semaphores.command("pause")
@click.argument("name")
@of_a_place
def pause_semaphore(name: str, **place: str) -> None:
    """Grant no permits until `resume`. Leases continue, and waiters keep their places."""
    with opened(**place) as client:
        show(client.semaphore(name).pause())


@semaphores.command("resume")
@click.argument("name")
@of_a_place
def resume_semaphore(name: str, **place: str) -> None:
    """Grant permits again, to those that wait first."""
    with opened(**place) as client:
        show(client.semaphore(name).resume())


@semaphores.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--timeout", default=3_600.0, show_default=True, help="Seconds to wait for a permit.")
@click.option("--lease", "lease_seconds", type=float, help="Seconds of the lease, which is renewed (default: its own).")
@click.option("--permits", default=1, show_default=True, help="How many permits.")
@of_a_place
def run(
    name: str, command: tuple[str, ...], timeout: float, lease_seconds: float | None, permits: int, **place: str
) -> int:
    """Run COMMAND while holding permits of the semaphore NAME: `semaphores run deploys -- signalbox deploy`.

    The lease is renewed while the command runs, and released when it ends; SIGNALBOX_TOKEN has the fencing token. The
    exit status is the command's, or 128 and the number of the signal that ended it, or:

    \b
    123  the semaphore does not exist
    124  no permit within --timeout
    125  the lease was lost: the command got SIGTERM, and SIGKILL ten seconds later
    126  COMMAND is not executable; no permit was taken
    127  there is no COMMAND; no permit was taken
    """
    from signalbox_tools.cli.leased_command import LeasedCommand

    with opened(**place) as client:
        return LeasedCommand(command).run(client.semaphore(name), timeout, permits, lease_seconds)


# --- rates ---


@click.group(cls=Group)
def rates() -> None:
    """Show and pause rates."""


@rates.command("ls")
@JSON_LINES
@of_a_place
def list_rates(as_json: bool, **place: str) -> None:
    """List rates: name, permits a minute, burst, and free permits."""
    with opened(**place) as client:
        show_each(client.rates.list(), ("name", "per_minute", "burst", "free"), as_json=as_json)


@rates.command("show")
@click.argument("name")
@of_a_place
def show_rate(name: str, **place: str) -> None:
    """Print a rate's limits, its free permits and the number of its waits."""
    with opened(**place) as client:
        show(client.rate(name).show())


@rates.command("pause")
@click.argument("name")
@of_a_place
def pause_rate(name: str, **place: str) -> None:
    """Grant no permits until `resume`. Waits keep their places."""
    with opened(**place) as client:
        show(client.rate(name).pause())


@rates.command("resume")
@click.argument("name")
@of_a_place
def resume_rate(name: str, **place: str) -> None:
    """Grant permits again, to those that wait first."""
    with opened(**place) as client:
        show(client.rate(name).resume())


# --- failures ---


@click.command("ls")
@click.option("--state", type=click.Choice(["failed", "retrying"]), help="Only those.")
@JSON_LINES
@of_a_place
def list_failures(state: str | None, as_json: bool, **place: str) -> None:
    """List tasks that were given up or are being retried: id, state, function, task and problem."""
    with opened(**place) as client:
        show_each(client.failures.list(state), ("id", "state", "function", "task", "problem"), as_json=as_json)


@click.command("show")
@click.argument("id")
@of_a_place
def show_failure(id: str, **place: str) -> None:
    """Print one failure: its call, its last error and the traceback."""
    with opened(**place) as client:
        show(client.failures.get(id))


@click.command("retry")
@click.argument("ids", metavar="ID...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that there are when the command begins.")
@of_a_place
def retry_failures(ids: tuple[str, ...], every: bool, **place: str) -> None:
    """Run tasks that were given up again: the named ones, or all."""
    if bool(ids) == every:
        raise click.UsageError("Name failures, or pass --all.")
    with opened(**place) as client:
        on_each(list(ids) or [each["id"] for each in client.failures.list()], client.failures.retry)


# --- batches ---


@click.group(cls=Group)
def batches() -> None:
    """List batches, watch one, show the results of its units, cancel it, and retry its failed units."""


@batches.command("ls")
@click.option("--state", type=click.Choice(["open", "sealed", "completed", "cancelled"]), help="Only those.")
@JSON_LINES
@of_a_place
def list_batches(state: str | None, as_json: bool, **place: str) -> None:
    """List batches: id, state and size."""
    with opened(**place) as client:
        show_each(client.batches.list(state=state), ("id", "state", "size"), as_json=as_json)


@batches.command("show")
@click.argument("id")
@of_a_place
def show_batch(id: str, **place: str) -> None:
    """Print a batch's state and counts."""
    with opened(**place) as client:
        show(client.batch(id).show())


@batches.command("watch")
@click.argument("id")
@of_a_place
def watch_batch(id: str, **place: str) -> None:
    """Print a batch's progress until it has ended, on a terminal as a bar."""
    with opened(**place) as client:
        counts = (event["data"] for event in client.batch(id).watch() if event["event"] != "unit")
        for latest in _drawn(counts) if sys.stdout.isatty() else counts:
            show(latest)


def _drawn(counts: Iterable[Any]) -> Iterator[Any]:
    """Draw the counts of a batch as a bar, and return the last ones."""
    latest = None
    with click.progressbar(length=1, file=sys.stderr, show_pos=True) as bar:
        for latest in counts:
            bar.length = latest["size"]
            bar.update(latest["succeeded"] + latest["failed"] - bar.pos)
    if latest is not None:
        yield latest


@batches.command("units")
@click.argument("id")
@click.option("--state", type=click.Choice(["succeeded", "failed"]), help="Only those.")
@JSON_LINES
@of_a_place
def list_units(id: str, state: str | None, as_json: bool, **place: str) -> None:
    """List the units of a batch that have an outcome: index, state, attempt, and the result or the error.

    A large result is shown by its size and SHA256. --json prints whole results, the others are cut.
    """
    with opened(**place) as client:
        units: Iterable[Any] = client.batch(id).units(state)
        if not as_json:
            units = ({**unit, "result": _outcome_of(unit)} for unit in units)
        show_each(units, ("index", "state", "attempt", "result"), as_json=as_json)


OUTCOME_LETTERS = 300
"""The letters of a unit's outcome in its line."""


def _outcome_of(unit: Any) -> str:
    """Return a unit's error or its result as text of one line. A large result is its size and its hash."""
    if unit["state"] == "failed":
        text = str(unit["error"])
    else:
        match unit["result"]:
            case {"$payload": {"bytes": int(size), "sha256": str(sha256)}}:
                return f"{size:,} bytes, SHA256 {sha256}"
            case result:
                text = json.dumps(result, ensure_ascii=False)
    return text if len(text) <= OUTCOME_LETTERS else f"{text[: OUTCOME_LETTERS - 1]}…"


@batches.command("value")
@click.argument("id")
@click.argument("index", type=int)
@click.argument("sha256")
@of_a_place
def value_of_unit(id: str, index: int, sha256: str, **place: str) -> None:
    """Print the large result of a unit as JSON. `batches units` shows the result by its size and SHA256."""
    with opened(**place) as client:
        show(client.batch(id).payload(index, sha256))


@batches.command("cancel")
@click.argument("id")
@of_a_place
def cancel_batch(id: str, **place: str) -> None:
    """Cancel a batch: units that have not begun do not run."""
    with opened(**place) as client:
        show(client.batch(id).cancel())


@batches.command("retry")
@click.argument("id")
@click.argument("units", nargs=-1, type=int)
@of_a_place
def retry_batch(id: str, units: tuple[int, ...], **place: str) -> None:
    """Run failed units again: the named ones, or all."""
    with opened(**place) as client:
        client.batch(id).retry(list(units) or None)


GROUPS = (documents, semaphores, rates, batches)
