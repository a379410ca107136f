"""Credentials of gcloud's account for Google's libraries."""

from datetime import UTC, datetime, timedelta
from typing import Any

from google.oauth2.credentials import Credentials

from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run

USED_FOR = timedelta(minutes=4)
"""The time after which gcloud is asked again: its tokens may end after five minutes."""


def gcloud_credentials(target: Target, run: Run) -> Credentials:
    """Return credentials that are valid for as long as they are used. Raises `CommandFailed`."""

    def token(*_: Any, **__: Any) -> tuple[str, datetime]:
        outcome = run(("gcloud", "auth", "print-access-token"), folder=target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        return outcome.text.strip(), (datetime.now(UTC) + USED_FOR).replace(tzinfo=None)

    first, ends_at = token()
    return Credentials(first, expiry=ends_at, refresh_handler=token)
