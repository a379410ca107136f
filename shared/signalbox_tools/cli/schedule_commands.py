"""The commands of schedules: list them with their next times, run one now, and make up for times that were missed."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from signalbox_tools.cli.command_groups import Group
from signalbox_tools.cli.deployment_options import of_a_deployment, reachable
from signalbox_tools.cli.function_commands import of_a_place, on_each, opened, time_of
from signalbox_tools.terminal_text import counted, visible

if TYPE_CHECKING:
    from signalbox.catalogue.reading import Schedule
    from signalbox.client.model import TaskCall

TIMES_MAX = 1_000
"""Times that one backfill makes up for. More are probably a mistake in --since."""


@click.group(cls=Group)
def schedules() -> None:
    """List schedules, run one now, make up for missed times. (`signalbox pause --schedule NAME` pauses one.)"""


@schedules.command("ls")
@of_a_deployment(required=False)
def list_schedules(project: str, environment: str, region: str) -> None:
    """List the schedules of the catalogue: cron expression, time zone, and next time, or that it is paused.

    Without --project, the local stack is read, if one runs.
    """
    from signalbox.catalogue.cron import next_time
    from signalbox.catalogue.reading import load_all

    now, paused = datetime.now(UTC), dict[str, Collection[str]]()
    for database, each in ((known.database, each) for known in load_all() for each in known.schedules.values()):
        if database not in paused:
            paused[database] = _paused(project, _place(environment, database), region)
        at = next_time(each.cron, now, each.time_zone)
        shown = f"next {at:%Y-%m-%d %H:%M} UTC" if at else "never"
        shown = "paused" if each.name in paused[database] else shown
        where = f"  database {database}" if database else ""
        called = f"{each.function} {each.task}".rstrip()
        click.echo(visible(f"{each.name}  {each.cron}  {each.time_zone}  {called}  {shown}{where}"))


def _place(environment: str, database: str) -> str:
    """Return the environment of a database: ``dev``, ``dev.payments``."""
    return ".".join(filter(None, (environment.partition(".")[0], database)))


def _paused(project: str, environment: str, region: str) -> Collection[str]:
    """Return the schedules that are paused in a deployment, or in the local stack: none if no stack runs."""
    from signalbox_tools.deploy.programs import CommandFailed
    from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
    from signalbox_tools.local.scheduler import paused_in
    from signalbox_tools.status.cloud_status import CloudSource

    try:
        if project:
            return CloudSource(reachable(project, environment, region)).paused_schedules()
        return paused_in(Path(RunningStack.of_project(environment).folder))
    except NoStack:
        return ()
    except CommandFailed as error:
        raise click.ClickException(str(error)) from error


@schedules.command("run")
@click.argument("name")
@of_a_place
def run_schedule(name: str, **place: str) -> None:
    """Enqueue the task of the schedule NAME now, once more, also if the schedule is paused."""
    schedule = _of_a_task(name, place["environment"])
    with opened(**place) as client:
        now = datetime.now(UTC).isoformat()
        click.echo(client.tasks.enqueue(_call(schedule), scheduled_at=now))


@schedules.command("backfill")
@click.argument("name")
@click.option("--since", required=True, help="30m, 2h or 7d ago, or a time such as 2026-01-31T09:30:00Z.")
@click.option("--until", help="The end, as --since (default: now).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@of_a_place
def backfill(name: str, since: str, until: str | None, yes: bool, **place: str) -> None:
    """Enqueue the task of the schedule NAME for each of its times that it has missed, for instance while it was paused.

    The task reads the time as `TaskContext.scheduled_at`. A time for which the schedule, also under another
    name, or an earlier backfill has enqueued the same call in the last 32 days is left out.
    """
    from signalbox.catalogue.cron import times

    schedule, now = _of_a_task(name, place["environment"]), datetime.now(UTC)
    end = min(time_of(until), now) if until else now
    planned = list(times(schedule.cron, time_of(since), end, schedule.time_zone))
    if not planned:
        raise click.ClickException(f"{name} has no time between --since and {end:%Y-%m-%d %H:%M} UTC.")
    if len(planned) > TIMES_MAX:
        raise click.ClickException(f"{name} has {len(planned):,} times since then; at most {TIMES_MAX:,} at once.")
    if not yes:
        span = f"{planned[0]:%Y-%m-%d %H:%M} to {planned[-1]:%Y-%m-%d %H:%M} UTC"
        click.confirm(f"{counted(len(planned), 'time')}, {span}. Continue?", abort=True)
    with opened(**place) as client:
        repeated = list[str]()

        def enqueue(at: str) -> None:
            answer = client.request("POST", "tasks", body={**_call(schedule), "schedule": name, "scheduled_at": at})
            repeated.extend([at] if isinstance(answer, dict) and answer.get("repeated") else ())

        on_each([at.isoformat() for at in planned], enqueue)
    if repeated:
        had = f"{len(repeated):,} of {counted(len(planned), 'time')} had been enqueued before"
        click.echo(f"{had}, by the schedule or a backfill, and were left out.", err=True)


def _of_a_task(name: str, environment: str) -> "Schedule":
    """Return a schedule of the catalogue that enqueues a task. Raises `ClickException`."""
    from signalbox.catalogue.reading import database_in, load_all

    chosen = database_in(environment)
    known: dict[str, Schedule] = {}
    for catalogue in load_all():
        own = {each.name: each for each in catalogue.schedules.values() if each.task}
        if catalogue.database == chosen:
            known = own
        elif name in own:
            where = _place(environment, catalogue.database)
            of = f"the database {catalogue.database}" if catalogue.database else "the first database"
            raise click.ClickException(f"{name} is a schedule of {of}: add -e {where}")
    if name not in known:
        raise click.ClickException(
            f"The catalogue has no schedule {name!r} of a task. It has: {', '.join(sorted(known)) or 'none'}."
        )
    return known[name]


def _call(schedule: "Schedule") -> "TaskCall":
    return {"function": schedule.function, "task": schedule.task, "payload": schedule.arguments}
