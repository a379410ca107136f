"""Make Terraform call Google as gcloud's account: one login, and one identity for both."""

import os
from collections.abc import Callable

from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.prerequisites import is_service_account
from signalbox_tools.deploy.programs import CommandFailed, Run

GIVEN = "GOOGLE_OAUTH_ACCESS_TOKEN"


def credentials(target: Target, account: str, run: Run) -> Callable[[], dict[str, str]]:
    """Return a function that returns the environment that Terraform signs in with.

    A token is valid for an hour, so take a new token for each command.

    A person's calls name the project whose quotas and APIs they use; a service account's calls belong to its own
    project.
    """
    own = {} if is_service_account(account) else {"USER_PROJECT_OVERRIDE": "true"}
    project = {} if is_service_account(account) else {"GOOGLE_BILLING_PROJECT": target.project}

    def environment() -> dict[str, str]:
        if os.environ.get(GIVEN):
            return own | project
        outcome = run(("gcloud", "auth", "print-access-token"), folder=target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        return own | project | {GIVEN: outcome.text.strip()}

    return environment
