"""The options that name a deployment, and the deployment that they name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from signalbox_tools.deploy.deployment_target import Target

Command = TypeVar("Command", bound=Callable[..., Any])


def of_a_deployment(*, required: bool) -> Callable[[Command], Command]:
    """Add the options that name a deployment. Without a project, the command uses the local stack."""
    where = "the Google Cloud project's id" + ("" if required else "; without it, the local stack")

    def added(command: Command) -> Command:
        for option in (
            click.option("--region", default="", help="Region (default: the environment's, else us-central1)."),
            click.option("--environment", "-e", default="dev", show_default=True, help="NAME of NAME.tfvars.json."),
            click.option(
                "--project",
                "-p",
                default=None if required else "",
                required=required,
                callback=_named if required else None,
                help=f"{where[0].upper()}{where[1:]}.",
            ),
        ):
            command = option(command)
        return command

    return added


def _named(context: click.Context, option: click.Parameter, project: str) -> str:
    """Refuse an empty project, as of a variable that is not set."""
    if not project:
        raise click.MissingParameter(ctx=context, param=option)
    return project


def target_of(project: str, environment: str, region: str) -> "Target":
    from signalbox_tools.deploy import deployment_target

    return deployment_target.read(project, environment, region)


def reachable(project: str, environment: str, region: str) -> "Target":
    """Return a deployment to read. Raises `CommandFailed` if gcloud has no account."""
    from signalbox_tools.deploy import programs, project_facts

    place = target_of(project, environment, region)
    project_facts.signed_in(place, programs.run)
    return place
