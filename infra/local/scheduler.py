"""Call the catalogue's schedules as Cloud Scheduler does, but every so many seconds.

One thread a schedule, so that a slow job delays no other and never overlaps itself. A failed call is logged and not
retried. Each call presents a token of the scheduler's account, which the local Cloud Tasks signs.
"""

import argparse
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

from infra import catalogue as catalogues
from infra import http_client
from infra.catalogue import Schedule, url_segment

RESPONSE_SECONDS_MAX = 180  # Cloud Scheduler's default attempt deadline

log = logging.getLogger("scheduler")


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls functions under `base_url` as `account`, with tokens from `identity_url`."""

    base_url: str
    account: str
    identity_url: str

    def call_for_ever(self, schedule: Schedule) -> None:
        """Call one schedule's function at its interval, forever."""
        while True:
            time.sleep(schedule.local_every_seconds)
            try:
                self.call(schedule)
            except OSError as error:
                log.warning("schedule %s: %s", schedule.name, error)

    def call(self, schedule: Schedule) -> None:
        """Call a schedule's function once. Raises `OSError` for any response but 2xx."""
        url = self.base_url + url_segment(schedule.function)
        headers = {
            "Authorization": f"Bearer {self.token(url)}",
            "User-Agent": "Google-Cloud-Scheduler",
            "X-CloudScheduler": "true",
            "X-CloudScheduler-JobName": schedule.name,
            "X-CloudScheduler-ScheduleTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        http_client.send("POST", url, headers=headers, timeout_seconds=RESPONSE_SECONDS_MAX)

    def token(self, audience: str) -> str:
        """Get an identity token for one address. Raises `OSError`."""
        accounts = f"{self.identity_url}/computeMetadata/v1/instance/service-accounts"
        url = f"{accounts}/{quote(self.account, safe='')}/identity?audience={quote(audience, safe='')}"
        headers = {"Metadata-Flavor": "Google"}
        return http_client.send("GET", url, headers=headers, timeout_seconds=RESPONSE_SECONDS_MAX).decode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.local.scheduler", description=__doc__)
    parser.add_argument("--catalogue", type=Path, required=True)
    parser.add_argument("--base-url", required=True, help="where the functions are; ends in a slash")
    parser.add_argument("--account", required=True, help="the account that schedules act for")
    parser.add_argument("--identity-url", required=True, help="address of the local Cloud Tasks' keys and tokens")
    given = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    schedules = catalogues.load(given.catalogue).schedules.values()
    caller = Caller(given.base_url, given.account, given.identity_url)
    for thread in [Thread(target=caller.call_for_ever, args=(schedule,)) for schedule in schedules]:
        thread.start()
    Event().wait()  # also without a schedule: the supervisor would restart what ends


if __name__ == "__main__":
    main()
