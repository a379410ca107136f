"""Build a local stack from Terraform's state, so that tests exercise the wiring of the cloud.

    with stack_of(applied_state.read(shown, folders, root), folder) as stack: ...

Functions and who invokes them, queues with their names, rates and retries, triggers, schedules, accounts, the database
and every variable of the functions' environment are those of the state. Only what cannot exist on this machine is
replaced:

- addresses: of Firestore, Cloud Tasks, the functions and the keys of tokens (`services.plan`);
- the object with the settings of all functions, which is read here and not by each function;
- `SIGNALBOX_SIGNATURES`: no service in front of the functions checks signatures here, so the functions do;
- the intervals of schedules, which the caller chooses (`applied_state.read`);
- the concurrency and the time-out of requests, since all functions share one process.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from signalbox.adapters.settings import Settings, from_environment
from signalbox.catalogue.catalogue_errors import refuse
from signalbox.catalogue.writing import written
from signalbox_tools.local.services.function_settings import declared_by
from signalbox_tools.local.stack import Stack
from tests.infra.applied_state import AppliedState

OF_ONE_FUNCTION = (
    "SIGNALBOX_REVISION",
    "THREADED_TIMEOUT_ENABLED",
    "THREADS",
    "SIGNALBOX_SIGNATURES",
    "SIGNALBOX_TIMEOUT_SECONDS",
    "SIGNALBOX_ORIGINS",
    "SIGNALBOX_AUTH",
    "SIGNALBOX_OPEN",
    "SIGNALBOX_PART",
    "SIGNALBOX_PARTS",
    "SIGNALBOX_CALLING_QUEUES",
    "SIGNALBOX_QUEUE_BACKOFFS",
    "SIGNALBOX_SPLIT_FUNCTIONS",
    "SIGNALBOX_EVENTS_ACCOUNT",
    "SIGNALBOX_PARTS",
)


def stack_of(applied: AppliedState, folder: Path) -> Stack:
    """Make a stack in `folder`; entering it starts it. Raises `CatalogueError` for what one process cannot serve."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "catalogue.yaml"
    file.write_text(written(applied.catalogue, elsewhere=True), "utf-8")
    return Stack(folder=folder, catalogue=file, settings=settings_of(applied))


def settings_of(applied: AppliedState) -> Settings:
    """Return the settings of all functions, whose environments must agree: they run in one process here."""
    first: Mapping[str, str] = {}
    for name, environment in applied.environments.items():
        common = {key: value for key, value in environment.items() if key not in OF_ONE_FUNCTION}
        first = first or common
        differ = sorted(key for key in first.keys() | common.keys() if first.get(key) != common.get(key))
        refuse(bool(differ), f"functions.{name}: other functions have other values of {', '.join(differ)}")
    return replace(
        from_environment(first).with_catalogue(applied.shared),
        catalogue="",
        queue_backoffs=declared_by(applied.catalogue, from_environment(first)).queue_backoffs,
        signatures_removed=False,
        part="",
        origins=applied.catalogue.origins,
        auth=applied.catalogue.auth,
        open_functions=applied.catalogue.open_functions,
        tokens_unsigned=True,
    )
