"""Call the catalogue's schedules as Cloud Scheduler does: at their times, or at an interval of seconds if one is set.

Each schedule has a thread, so that a slow job does not delay others and never overlaps itself. A failed call is logged
and not retried. Each call presents a token of the scheduler's account, which the local Cloud Tasks signs.

The sweeper is called less often while no tasks and events arrive: it would find nothing, and an idle stack should use
no processor time. A user's schedules keep their interval.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from urllib.parse import quote
from zoneinfo import ZoneInfo

from signalbox.catalogue.cron import NEXT_DAYS_MAX, next_time
from signalbox.catalogue.entries import Schedule
from signalbox.catalogue.function_entries import url_segment
from signalbox_tools import http_client
from signalbox_tools.local.kept_threads import kept_thread

RESPONSE_SECONDS_MAX = 180  # Cloud Scheduler's default attempt deadline

PAUSED_FILE = "{}.schedule-paused"
"""A file in the stack's folder that pauses the schedule of this name."""

NEVER = datetime.min.replace(tzinfo=UTC)
SLEEP_SECONDS_MAX = 30.0

SWEEPER = "sweep"
QUIET_CALLS = 10
"""After this number of calls without other activity, the sweeper is called `QUIET_FACTOR` times less often."""

QUIET_FACTOR = 10

log = logging.getLogger("scheduler")


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def paused_in(folder: Path) -> list[str]:
    """Return the names of the schedules that are paused, by the files in a stack's folder."""
    before, after = PAUSED_FILE.split("{}")
    return sorted(each.name.removeprefix(before).removesuffix(after) for each in folder.glob(PAUSED_FILE.format("*")))


def schedule_lines(schedules: Iterable[Schedule], now: datetime) -> Iterator[str]:
    """Iterate over a line for each schedule: when it runs on this machine, and when next."""
    for each in schedules:
        if each.local_every_seconds:
            yield f"{each.name}: every {each.local_every_seconds:g} s (on this machine)"
        elif at := next_time(each.cron, now, each.time_zone):
            shown = at.astimezone(ZoneInfo(each.time_zone))
            yield f"{each.name}: {each.cron} {each.time_zone}, next {shown:%a %Y-%m-%d %H:%M}"


@dataclass(slots=True)
class Pace:
    """The pause before the next call of a schedule. `activity` returns counters that change with each activity.

    `planned_at` is the time of that call, which its task reads, and `now` returns the time.
    """

    schedule: Schedule
    activity: Callable[[], object]
    now: Callable[[], datetime] = utc_now
    planned_at: datetime = NEVER
    quiet_calls: int = 0
    last: object = None

    def seconds(self) -> float:
        """Return the pause from now."""
        pause = self._pause()
        every = self.schedule.local_every_seconds
        self.planned_at = self.now() + timedelta(seconds=pause) if every else self.planned_at
        return pause

    def _pause(self) -> float:
        every = self.schedule.local_every_seconds
        if not every:
            return self._until_next()
        if self.schedule.function != SWEEPER:
            return every
        now = self.activity()
        self.quiet_calls = self.quiet_calls + 1 if now == self.last and now is not None else 0
        self.last = now
        return every * QUIET_FACTOR if self.quiet_calls > QUIET_CALLS else every

    def _until_next(self) -> float:
        """Return the seconds until the next time of the schedule, later than the last one.

        The clock may have been set back, or the machine may have slept: then the missed times are left out.
        """
        now = self.now()
        at = next_time(self.schedule.cron, max(now, self.planned_at), self.schedule.time_zone)
        self.planned_at = at or now + timedelta(days=NEXT_DAYS_MAX)
        return (self.planned_at - now).total_seconds()


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls functions under `base_url` as `account`, with tokens from `identity_url`."""

    base_url: str
    account: str
    identity_url: str
    stats_urls: Sequence[str] = ()
    folder: Path | None = None
    """The folder that has the files of paused schedules."""

    def call_for_ever(self, schedule: Schedule) -> None:
        """Call one schedule's function at its interval, forever."""
        pace = Pace(schedule, self.activity)
        while True:
            _sleep(pace.seconds())
            try:
                self.call_unless_paused(schedule, pace.planned_at)
            except OSError as error:
                log.warning("schedule %s: %s", schedule.name, error)

    def call_unless_paused(self, schedule: Schedule, planned_at: datetime | None = None) -> None:
        """Call a schedule's function once, unless it is paused. Raises as `call` does."""
        if self.folder is None or not (self.folder / PAUSED_FILE.format(schedule.name)).exists():
            self.call(schedule, planned_at)

    def call(self, schedule: Schedule, planned_at: datetime | None = None) -> None:
        """Call a schedule's function once, for a planned time. Raises `OSError` for any response but 2xx."""
        url = self.base_url + url_segment(schedule.called)
        headers = {
            **({"Content-Type": "application/json"} if schedule.body else {}),
            "Authorization": f"Bearer {self.token(url)}",
            "User-Agent": "Google-Cloud-Scheduler",
            "X-CloudScheduler": "true",
            "X-CloudScheduler-JobName": schedule.name,
            "X-CloudScheduler-ScheduleTime": (planned_at or datetime.now(UTC)).isoformat(),
        }
        http_client.send("POST", url, content=schedule.body, headers=headers, timeout_seconds=RESPONSE_SECONDS_MAX)

    def activity(self) -> object:
        """Return the counters of queues and events, or None if they cannot be read."""
        try:
            return [http_client.send("GET", url, timeout_seconds=RESPONSE_SECONDS_MAX) for url in self.stats_urls]
        except OSError:
            return None

    def token(self, audience: str) -> str:
        """Get an identity token for one address. Raises `OSError`."""
        accounts = f"{self.identity_url}/computeMetadata/v1/instance/service-accounts"
        url = f"{accounts}/{quote(self.account, safe='')}/identity?audience={quote(audience, safe='')}"
        headers = {"Metadata-Flavor": "Google"}
        return http_client.send("GET", url, headers=headers, timeout_seconds=RESPONSE_SECONDS_MAX).decode()


def _sleep(seconds: float) -> None:
    """Sleep, in parts: the time may have passed while the machine was suspended."""
    until = time.time() + seconds
    while (left := until - time.time()) > 0:
        time.sleep(min(left, SLEEP_SECONDS_MAX))


def _schedules(text: str) -> list[Schedule]:
    return [Schedule(**schedule) for schedule in json.loads(text)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m signalbox_tools.local.scheduler", description=__doc__)
    parser.add_argument("--schedules", type=_schedules, required=True, help="the schedules of the catalogue, as JSON")
    parser.add_argument("--base-url", required=True, help="where the functions are; ends in a slash")
    parser.add_argument("--account", required=True, help="the account that schedules act for")
    parser.add_argument("--identity-url", required=True, help="address of the local Cloud Tasks' keys and tokens")
    parser.add_argument("--stats-url", action="append", default=[], help="an address whose answer shows activity")
    parser.add_argument("--folder", type=Path, help="where a file pauses a schedule")
    given = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    caller = Caller(given.base_url, given.account, given.identity_url, given.stats_url, given.folder)
    for schedule in given.schedules:
        kept_thread(f"schedule {schedule.name}", partial(caller.call_for_ever, schedule)).start()
    Event().wait()  # also without a schedule, because the supervisor restarts a process that ends


if __name__ == "__main__":
    main()
