"""Call the catalogue's schedules as Cloud Scheduler does, but every so many seconds.

One thread a schedule, so that a slow job delays no other and never overlaps itself. A call that fails is only logged:
the next one comes anyway.
"""

import argparse
import http.client
import logging
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from infra import catalogue as catalogues
from infra.catalogue import Schedule, url_segment

ANSWER_SECONDS_MAX = 180  # Cloud Scheduler's default attempt deadline

log = logging.getLogger("scheduler")


def call_for_ever(schedule: Schedule, base_url: str) -> None:
    """Call one schedule's function, again and again."""
    while True:
        time.sleep(schedule.local_every_seconds)
        try:
            call(schedule, base_url)
        except (OSError, http.client.HTTPException) as error:
            log.warning("schedule %s: %s", schedule.name, error)


def call(schedule: Schedule, base_url: str) -> None:
    """Call a schedule's function once. Raises `OSError` when it does not answer 2xx."""
    headers = {
        "User-Agent": "Google-Cloud-Scheduler",
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": schedule.name,
        "X-CloudScheduler-ScheduleTime": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    url = base_url + url_segment(schedule.function)
    request = urllib.request.Request(url, b"", headers, method="POST")  # noqa: S310 (the stack's own address)
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX):  # noqa: S310
        return


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.local.scheduler", description=__doc__)
    parser.add_argument("--catalogue", type=Path, required=True)
    parser.add_argument("--base-url", required=True, help="where the functions are; ends in a slash")
    given = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    schedules = catalogues.load(given.catalogue).schedules.values()
    callers = [Thread(target=call_for_ever, args=(schedule, given.base_url)) for schedule in schedules]
    for caller in callers:
        caller.start()


if __name__ == "__main__":
    main()
