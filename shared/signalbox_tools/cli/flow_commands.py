"""The commands that start, watch and change runs of flows. They use the package's client."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from signalbox_tools.cli.command_groups import Group
from signalbox_tools.cli.function_commands import (
    JSON_LINES,
    Command,
    NothingToDo,
    arguments_of,
    json_of,
    of_a_place,
    on_each,
    opened,
    show,
    show_each,
    time_of,
)
from signalbox_tools.terminal_text import counted, visible, visible_lines

if TYPE_CHECKING:
    from signalbox.client.blocking.batches import Batch
    from signalbox.client.blocking.objects_and_flows import Run

ENDED = frozenset({"completed", "failed", "cancelled"})
ON_LIVE_RUNS = frozenset({"cancel", "terminate", "resume"})

READABLE = "api: [batches]"
"""The entry of the catalogue with which callers can read batches."""

FOLLOWED_SECONDS = 1.0
"""The interval at which the progress of a batch is read."""


class Seconds(click.FloatRange):
    """A time that a command waits; `inf` waits until the end."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):  # it is in every range, and would be waited for without an end
            self.fail(f"{value!r} is not a number.", param, ctx)
        return seconds


SECONDS = Seconds(min=0)


class OfARun(click.Command):
    """A command whose first argument may be FLOW/ID instead of FUNCTION FLOW ID. The catalogue has the function."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {parameter.name for parameter in self.params}
        flow, _, id_ = args[0].partition("/") if args and not args[0].startswith("-") else ("", "", "")
        if not names & {"id", "ids"} or not flow or not id_:
            return super().parse_args(ctx, args)
        left = super().parse_args(ctx, [OF_THE_CATALOGUE, flow, id_, *args[1:]])
        if len(ctx.params.get("ids", ())) > 1:
            raise click.UsageError("Name one run as FLOW/ID, or several as FUNCTION FLOW ID ID …", ctx)
        ctx.params["function"] = _function_of(flow, ctx.params["environment"])
        return left


class Flows(Group):
    """The commands of flows, each of which names a run in both forms."""

    command_class = OfARun


OF_THE_CATALOGUE = "/"
"""The name of no function: it is looked up by the flow."""


def _function_of(flow: str, environment: str) -> str:
    """Return the function of a flow, if only one in the catalogue has it."""
    from signalbox.catalogue.project import NotAProject
    from signalbox.catalogue.reading import CatalogueError, database_in, load

    try:
        functions = load(database=database_in(environment)).functions.values()
    except (CatalogueError, NotAProject, OSError) as error:
        raise click.ClickException(f"{visible_lines(str(error))} Name the run as FUNCTION FLOW ID.") from error
    owners = [function.name for function in functions if flow in function.flows]
    if len(owners) == 1:
        return owners[0]
    advice = "Name the run as FUNCTION FLOW ID."
    if owners:
        raise click.ClickException(visible(f"Several functions have a flow {flow!r}: {', '.join(owners)}. {advice}"))
    known = ", ".join(sorted(name for function in functions for name in function.flows)) or "none"
    raise click.ClickException(visible(f"The catalogue has no flow {flow!r}. Its flows: {known}. {advice}"))


@click.group(cls=Flows)
def flows() -> None:
    """Start runs of flows, and act on them. (`signalbox flow FLOW/ID` draws one.)

    A run is named as FLOW/ID, or as FUNCTION FLOW ID.
    """


@flows.command("ls")
@click.argument("function")
@click.argument("flow")
@click.option("--state", help="Only runs in this state: running, suspended, stuck, completed, failed, cancelled.")
@click.option("--label", "labels", multiple=True, help="Only runs with this label, as name:value; repeat it for more.")
@click.option("--count-by", metavar="LABEL", help="Print the number of the runs with each value of a label instead.")
@click.option(
    "--since", help="Only runs started since then: 30m, 2h or 7d ago, or a time such as 2026-01-31T09:30:00Z."
)
@click.option("--until", help="Only runs started before then, as --since.")
@click.option("--newest-first", is_flag=True, help="Sort by the start, the newest first, as --since and --until do.")
@JSON_LINES
@of_a_place
def list_runs(
    function: str,
    flow: str,
    state: str | None,
    labels: tuple[str, ...],
    count_by: str | None,
    since: str | None,
    until: str | None,
    newest_first: bool,
    as_json: bool,
    **place: str,
) -> None:
    """List the runs of a flow: id and state."""
    after, before = (None if text is None else time_of(text) for text in (since, until))
    with opened(**place) as client:
        of = client.flow(function, flow)
        if count_by is not None:
            show(of.count_by(count_by, state, labels, None, after, before))
        else:
            runs = of.runs(state, labels, None, after, before, newest_first=newest_first)
            show_each(runs, ("id", "state"), as_json=as_json)


@flows.command("show")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@of_a_place
def show_run(function: str, flow: str, id: str, **place: str) -> None:
    """Print a run's state and what it waits for."""
    with opened(**place) as client:
        show(client.flow(function, flow).run(id).show())


@flows.command("start")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--wait", type=SECONDS, default=0.0, help="Seconds to wait for the result, which is printed.")
@of_a_place
def start_run(function: str, flow: str, id: str, arguments: tuple[str, ...], wait: float, **place: str) -> None:
    """Start a run. A value that is JSON is that JSON, any other one is a text."""
    given = arguments_of(arguments)
    with opened(**place) as client:
        started = client.flow(function, flow).start(id, **given)
        show(started.result(wait) if wait else started.show())


@flows.command("start-new")
@click.argument("function")
@click.argument("flow")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--wait", type=SECONDS, default=0.0, help="Seconds to wait for the result, which is printed.")
@of_a_place
def start_new_run(function: str, flow: str, arguments: tuple[str, ...], wait: float, **place: str) -> None:
    """Start a run under a drawn id, which is printed with its status."""
    given = arguments_of(arguments)
    with opened(**place) as client:
        started = client.flow(function, flow).start_new(**given)
        show(started.result(wait) if wait else started.show())


def _with_start(command: Command) -> Command:
    """Add the options of a message that may start its run."""
    command = click.option(
        "--if-exists",
        type=click.Choice(["same", "replace_ended", "replace", "refuse"]),
        help="With --start, if there is a run: it receives the message (same), the same unless it has ended "
        "(replace_ended), it is ended and another one starts (replace), or the message is refused.",
    )(command)
    return click.option("--start", metavar="JSON", help="Start the run with these arguments if there is none.")(command)


@flows.command("event")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("name")
@click.argument("value", default="null")
@_with_start
@of_a_place
def send_event(
    function: str, flow: str, id: str, name: str, value: str, start: str | None, if_exists: str | None, **place: str
) -> None:
    """Send an event with VALUE (JSON) to a run. Print a warning if its code does not wait for it now."""
    new = None if start is None else {"arguments": json_of(start)}
    with opened(**place) as client:
        sent = client.flow(function, flow).run(id).send(name, json_of(value), start=new, if_exists=if_exists)
    _warn(str(sent.get("warning", "")))


def _warn(warning: str) -> None:
    """Print the warning of a message, unless it is empty."""
    if warning:
        click.echo(visible(f"Warning: {warning}"), err=True)


@flows.command("update")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("name")
@click.argument("value", default="null")
@click.option("--wait", type=SECONDS, default=30.0, help="Seconds to wait for the answer (default: 30).")
@click.option("--key", help="A repeat under the same key gets the first answer.")
@_with_start
@of_a_place
def update_run(
    function: str,
    flow: str,
    id: str,
    name: str,
    value: str,
    wait: float,
    key: str | None,
    start: str | None,
    if_exists: str | None,
    **place: str,
) -> None:
    """Send an update with VALUE (JSON) to a run, and print the answer of its code.

    Print a warning at once if its code does not wait for the update.
    """
    new = None if start is None else {"arguments": json_of(start)}
    with opened(**place) as client:
        run = client.flow(function, flow).run(id)
        update = run.post_update(name, json_of(value), start=new, if_exists=if_exists, key=key)
        _warn(update.warning)
        show(run.sent_update(update.id).result(wait))


@flows.command("answer")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("update")
@click.option("--wait", type=SECONDS, default=0.0, help="Seconds to wait for the answer (default: 0).")
@of_a_place
def answer_of_update(function: str, flow: str, id: str, update: str, wait: float, **place: str) -> None:
    """Print the answer to an update, also a large one. UPDATE is its id: the `--key` of the update, or in the log."""
    with opened(**place) as client:
        show(client.flow(function, flow).run(id).sent_update(update).result(wait))


@flows.command("query")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT=VALUE]...")
@of_a_place
def query_run(function: str, flow: str, id: str, name: str | None, arguments: tuple[str, ...], **place: str) -> None:
    """Query the code of a run, which changes nothing. Without NAME, list the queries that it answers."""
    given = arguments_of(arguments)
    with opened(**place) as client:
        run = client.flow(function, flow).run(id)
        show(run.query(name, **given) if name else run.queries())


def _of_runs(command: Command) -> Command:
    """Add the arguments that name runs of a flow, and the options that choose them instead."""
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--label", help="All runs with this label, as name:value."),
        click.option("--state", help="All runs in this state: running, suspended, stuck, failed …"),
        click.argument("ids", metavar="[ID]...", nargs=-1),
        click.argument("flow"),
        click.argument("function"),
    ):
        command = option(command)
    return command


def _on_runs(
    act: Callable[["Run"], object],
    action: str,
    place: Mapping[str, str],
    function: str,
    flow: str,
    ids: Sequence[str],
    state: str | None,
    label: str | None,
    yes: bool,
    reason: str | None = None,
) -> None:
    """Act on the named runs, or on all that have a state or a label, which are counted and confirmed first.

    The function acts on all that match, as a batch, if it has the `action` and batches are deployed. Otherwise this
    command acts on each.
    """
    from signalbox.client import NotFound

    _check_choice(ids, state, label)
    with opened(**place) as client:
        of = client.flow(function, flow)
        if not ids:
            count = of.count(state, label)
            if not count:
                click.echo(NO_RUN, err=True)
                return
            if not yes:
                click.confirm(f"{count:,} runs match. Continue?", abort=True)
            try:
                batch = of.act_on_all(action, state=state, label=label, reason=reason) if action else None
            except NotFound as without_batches:
                click.echo(f"{visible(str(without_batches))} This command acts on each run instead.", err=True)
                batch = None
            if batch:
                _follow(batch)
                return
            ids = [each["id"] for each in of.runs(state, label)]
        on_each(ids, lambda each: _act(of.run(each), act, action))


NO_RUN = "No run matches."


def _check_choice(ids: Sequence[str], state: str | None, label: str | None) -> None:
    """Raise `UsageError` unless the runs are either named or chosen."""
    if bool(ids) == bool(state or label):
        raise click.UsageError("Name runs, or choose them by --state or --label.")


def _act(run: "Run", act: Callable[["Run"], object], action: str) -> None:
    """Act on a run. Raises `NothingToDo` for a run that has ended, which accepts most actions without an effect."""
    if action in ON_LIVE_RUNS and (state := run.show()["state"]) in ENDED:
        raise NothingToDo(f"nothing to {action}: the run is {state}")
    act(run)


def _follow(batch: "Batch") -> None:
    """Show the progress of a batch on runs. The status is 1 if runs refuse the action, or if the batch is cancelled."""
    from signalbox.client import NotFound

    click.echo(f"The batch {batch.id} acts on them, also if this command ends.", err=True)
    try:
        shown = batch.show()
    except NotFound as not_for_callers:
        why = visible(str(not_for_callers)).rstrip(".")
        advice = "" if READABLE in why else f" To follow it, add `{READABLE}` to the catalogue."
        click.echo(f"Its progress cannot be shown: {why}.{advice}", err=True)
        return
    with click.progressbar(length=shown["size"], file=sys.stderr) as bar:
        while True:
            bar.update(shown["succeeded"] + shown["failed"] - bar.pos)
            if shown["state"] in ("completed", "cancelled"):
                break
            sleep(FOLLOWED_SECONDS)
            shown = batch.show()
    for unit in batch.results("failed"):
        click.echo(visible(unit["error"]), err=True)
    skipped = sum(unit.get("result") == "skipped" for unit in batch.results("succeeded"))
    if skipped:
        click.echo(f"{skipped:,} skipped: they had ended before, or no longer match.", err=True)
    click.echo(f"{shown['succeeded'] - skipped:,} of {shown['size']:,} done.", err=True)
    if shown["failed"] or shown["state"] == "cancelled":
        raise click.exceptions.Exit(1)


@flows.command("cancel")
@_of_runs
@click.option("--reason", help="It is in the run's problem.")
@of_a_place
def cancel_runs(
    function: str, flow: str, ids: tuple[str, ...], state: str, label: str, yes: bool, reason: str | None, **place: str
) -> None:
    """Cancel runs, whose code can clean up."""
    _on_runs(lambda run: run.cancel(reason), "cancel", place, function, flow, ids, state, label, yes, reason)


@flows.command("terminate")
@_of_runs
@click.option("--reason", help="It is in the run's problem.")
@of_a_place
def terminate_runs(
    function: str, flow: str, ids: tuple[str, ...], state: str, label: str, yes: bool, reason: str | None, **place: str
) -> None:
    """End runs at once, without a clean-up of their code."""
    _on_runs(lambda run: run.terminate(reason), "terminate", place, function, flow, ids, state, label, yes, reason)


@flows.command("suspend")
@_of_runs
@click.option("--reason", help="Shown in the status.")
@of_a_place
def suspend_runs(
    function: str, flow: str, ids: tuple[str, ...], state: str, label: str, yes: bool, reason: str | None, **place: str
) -> None:
    """Let runs take no further step until they are resumed."""
    _on_runs(lambda run: run.suspend(reason), "", place, function, flow, ids, state, label, yes)


@flows.command("resume")
@_of_runs
@of_a_place
def resume_runs(
    function: str, flow: str, ids: tuple[str, ...], state: str, label: str, yes: bool, **place: str
) -> None:
    """Let suspended runs continue, or replay stuck ones now."""
    _on_runs(lambda run: run.resume(), "resume", place, function, flow, ids, state, label, yes)


@flows.command("retry")
@_of_runs
@click.option(
    "--from-entry", type=int, help="The number of log entries to keep. Without it, the failed commands run again."
)
@click.option("--family", is_flag=True, help="Of a sub-flow: retry the highest run that has failed because of it.")
@click.option("--timeout-seconds", type=float, help="A new time-out, counted from now.")
@click.option("--dry-run", is_flag=True, help="Only show what would be dropped and run again.")
@click.option("--json", "as_json", is_flag=True, help="Print the dry run of each run as a line of JSON.")
@click.option("--reason", help="Shown in the status.")
@of_a_place
def retry_runs(
    function: str,
    flow: str,
    ids: tuple[str, ...],
    state: str,
    label: str,
    yes: bool,
    from_entry: int | None,
    family: bool,
    timeout_seconds: float | None,
    dry_run: bool,
    as_json: bool,
    reason: str | None,
    **place: str,
) -> None:
    """Let runs that have failed continue in place. Their effects are not undone.

    A stuck run continues with fixed code, and needs no retry. With --from-entry, commands that have ended may run a
    second time: the command names them and asks.
    """
    options: dict[str, Any] = {"family": family, "timeout_seconds": timeout_seconds, "reason": reason}

    def plan_of(run: "Run") -> Any:
        return run.retry(from_entry, dry_run=True, **options)

    if dry_run:
        _check_choice(ids, state, label)
        with opened(**place) as client:
            of = client.flow(function, flow)
            chosen = ids or [each["id"] for each in of.runs(state, label)]
            if not chosen:
                click.echo(NO_RUN, err=True)
                return
            shown = show if as_json else _show_plan
            on_each(chosen, lambda each: shown(plan_of(of.run(each))), "can be retried. Nothing was changed.")
        return

    def retry(run: "Run") -> None:
        if from_entry is not None and not yes:
            _confirm_second_starts(plan_of(run))
        run.retry(from_entry, **options)

    of_all = "" if from_entry is not None or family or timeout_seconds is not None else "retry"
    _on_runs(retry, of_all, place, function, flow, ids, state, label, yes, reason)


def _confirm_second_starts(plan: Mapping[str, Any]) -> None:
    """Ask for commands of a stuck run that have ended. Raises `NothingToDo` if the answer is no."""
    if not plan.get("ended"):
        return
    run, ended = f"{plan['flow']}/{plan['id']}", ", ".join(plan["ended"])
    what = f"{run} is stuck. A retry runs these commands a second time: {ended}. With fixed code, no retry is needed."
    if not click.confirm(visible(f"{what} Retry it?")):
        raise NothingToDo("not retried")


def _show_plan(plan: Mapping[str, Any]) -> None:
    """Print what a retry keeps, runs again and drops."""
    lines = [
        f"{plan['flow']}/{plan['id']}: entries that stay: {plan['keeps']:,}",
        *(f"  runs again: {_entry(each)}" for each in plan["runs_again"]),
        *(
            f"  runs again in the sub-flow {below['flow']}/{below['id']}: {_entry(each)}"
            for below in plan.get("sub_flows", ())
            for each in below["runs_again"]
        ),
        *(f"  drops: {_entry(each)}" for each in plan["drops"]),
        *([f"  drops {plan['dropped']:,} in all"] if plan["dropped"] > len(plan["drops"]) else []),
        *(f"  cancels, and begins again where the code waits: {command}" for command in plan["cancels"]),
        *(f"  has ended, and runs a second time: {command}" for command in plan.get("ended", ())),
    ]
    for line in lines:
        click.echo(visible(line))


def _entry(entry: Mapping[str, Any]) -> str:
    """Return the number of an entry of a log, and its command or its name."""
    return f"{entry['number']} {entry.get('command') or ' '.join([entry['entry'], *filter(None, [entry.get('name')])])}"


@flows.command("delete")
@_of_runs
@of_a_place
def delete_runs(
    function: str, flow: str, ids: tuple[str, ...], state: str, label: str, yes: bool, **place: str
) -> None:
    """Remove runs that have ended or are stuck, so that their ids are free."""
    _on_runs(lambda run: run.delete(), "delete", place, function, flow, ids, state, label, yes)


@flows.command("fork")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("new_id")
@click.option("--from-entry", type=int, required=True, help="How many entries of the log the new run takes over.")
@of_a_place
def fork_run(function: str, flow: str, id: str, new_id: str, from_entry: int, **place: str) -> None:
    """Start the run NEW_ID from the first entries of a run's log, also of one that has failed."""
    with opened(**place) as client:
        show(client.flow(function, flow).run(id).fork(new_id, from_entry).show())


@flows.command("tail")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@of_a_place
def tail_run(function: str, flow: str, id: str, **place: str) -> int:
    """Print a run's log entries as they are made, until it has ended. The status is 1 if it did not complete."""
    status: Any = {}
    with opened(**place) as client:
        for event in client.flow(function, flow).run(id).watch():
            if event["event"] == "entry":
                show_each([event["data"]], (), as_json=True)
            status = event["data"]
    show({name: status[name] for name in ("state", "result", "error") if name in status})
    return 0 if status["state"] == "completed" else 1


@flows.command("value")
@click.argument("function")
@click.argument("flow")
@click.argument("id")
@click.argument("sha256")
@of_a_place
def value_of_run(function: str, flow: str, id: str, sha256: str, **place: str) -> None:
    """Print a large value of a run as JSON. Its status and its log show the value by its size and SHA256."""
    with opened(**place) as client:
        show(client.flow(function, flow).run(id).payload(sha256))


@flows.command("replay")
@click.argument("function")
@click.argument("flow", required=False)
@click.argument("id", required=False)
@click.option("--debug", is_flag=True, help="Stop in pdb at the first line of the flow's code.")
@click.option("--all-running", is_flag=True, help="All runs of FUNCTION, or of FLOW, that run or are suspended.")
@of_a_place
def replay_run(
    function: str, flow: str | None, id: str | None, debug: bool, all_running: bool, **place: str
) -> int | None:
    """Replay a run's log with the project's code, in this process: `breakpoint()` and an editor's breakpoints work.

    With --all-running, check whether all runs can continue with this code: the status is 3 if some would be stuck.
    Nothing is sent or written. The status is 1 if the code diverges from the log.
    """
    from signalbox.catalogue.reading import CatalogueError
    from signalbox_tools.cli import flow_replay

    if all_running and (id or debug):
        raise click.UsageError("--all-running replays all runs: leave out ID and --debug.")
    if not all_running and (flow is None or id is None):
        raise click.UsageError("Name a run, FLOW ID, or write --all-running.")
    try:
        environment = place["environment"]
        with opened(**place) as client, flow_replay.knowing_the_catalogue(environment):
            if all_running:
                known = flow_replay.flows_of(function, environment)
                chosen = known if flow is None else {flow: flow_replay.flow_of(function, flow, environment)}
                return _check_all(flow_replay.replay_all(client, function, chosen))
            assert flow is not None, "checked above"
            assert id is not None, "checked above"
            log = client.flow(function, flow).run(id).whole_log()
            click.echo(visible(flow_replay.replay(flow_replay.flow_of(function, flow, environment), log, stop=debug)))
    except (AssertionError, CatalogueError, LookupError) as error:
        raise click.ClickException(visible_lines(str(error))) from error
    return None


def _check_all(replayed: Iterable[str]) -> int:
    """Print the runs that would be stuck, and how many there are. Return the exit status."""
    from signalbox_tools.cli.flow_replay import MISFITS_STATUS

    outcomes = list(replayed)
    misfits = [outcome for outcome in outcomes if outcome]
    if not misfits:
        click.echo(f"{counted(len(outcomes), 'run')} would continue with this code.")
        return 0
    click.echo(f"{len(misfits):,} of {counted(len(outcomes), 'run')} would be stuck with this code:")
    for misfit in misfits:
        click.echo(f"  {visible(misfit)}")
    return MISFITS_STATUS
