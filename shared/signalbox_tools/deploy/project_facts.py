"""Read the state of a project and this machine, without changing anything.

The commands of a round run in parallel: gcloud takes about a second for each. The second round needs APIs that are
enabled already; on a fresh project they are not, and nothing of Signalbox can exist there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from signalbox.catalogue.reading import CatalogueError, Function
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import NOT_FOUND, CommandFailed, Outcome, Run

FUNCTIONS_API = "cloudfunctions.googleapis.com"
FIRESTORE_API = "firestore.googleapis.com"
TASKS_API, SCHEDULER_API = "cloudtasks.googleapis.com", "cloudscheduler.googleapis.com"
COMPUTE_API, SECRETS_API = "compute.googleapis.com", "secretmanager.googleapis.com"
ACCOUNT = "gcloud auth list --filter=status:ACTIVE --format=value(account)"
OFF = re.compile("SERVICE_DISABLED|has not been used in project")  # the API that would list them is also off
EVENTS_APIS = frozenset({"eventarc.googleapis.com", "eventarcpublishing.googleapis.com", "pubsub.googleapis.com"})
APIS = frozenset(
    {
        "artifactregistry.googleapis.com",
        "cloudbuild.googleapis.com",
        "cloudresourcemanager.googleapis.com",
        "firebaserules.googleapis.com",
        "iam.googleapis.com",
        "logging.googleapis.com",
        "monitoring.googleapis.com",
        "run.googleapis.com",
        "storage.googleapis.com",
        FIRESTORE_API,
        FUNCTIONS_API,
        SCHEDULER_API,
        TASKS_API,
    }
)
"""The APIs that every deployment needs. `signalbox deploy` enables them, and Terraform does not know them."""

API = re.compile(r'"([a-z]+\.googleapis\.com)"')
VARIABLE = re.compile(r'^variable "(\w+)"', re.MULTILINE)
ABSENT = "NOT_FOUND"
AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state of a project, read without changing it.

    A fact is None if it could not be read or reading is not permitted, and an empty text if it does not exist.

    - `regions`, `queue_regions` and `schedule_regions` are those of Cloud Functions, Cloud Tasks and Cloud Scheduler.
    - `functions` are the labels of the region's functions, by name.
    - `elsewhere` are the labels of the functions of other regions, by region and name.
    - `databases` has the location of each database, by name.
    - `editions` has the edition of each database: STANDARD or ENTERPRISE, if gcloud prints it.
    - `modes` has the mode of each database: FIRESTORE_NATIVE or DATASTORE_MODE.
    - `keys` has the users' own key of each database.
    - `variables` are the settings that an environment may have.
    """

    terraform: str = ""
    gcloud: bool = False
    account: str = ""
    project_state: str = ""
    billing: bool | None = None
    apis: frozenset[str] | None = None
    state_bucket: bool = False
    deployer: bool | None = None
    regions: frozenset[str] | None = None
    queue_regions: frozenset[str] | None = None
    schedule_regions: frozenset[str] | None = None
    runtimes: frozenset[str] | None = None
    functions: Mapping[str, Mapping[str, str]] | None = None
    elsewhere: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    databases: Mapping[str, str] | None = None
    editions: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    declared: Sequence[Function] = ()
    catalogue_error: str = ""
    needed_apis: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()


def gather(target: Target, run: Run) -> Facts:
    """Run all commands, and return the facts. The fact of a failed command is empty or None."""
    first = _ask(_first_round(target), target.root, run)
    apis = frozenset() if OFF.search(first["services"].error) else _names(first["services"])
    later = _ask(_second_round(target, apis or frozenset()), target.root, run)
    labels = _labels(later.get("functions"))
    declared, catalogue_error = _catalogue(target)
    return Facts(
        terraform=_json(first["terraform"], {}).get("terraform_version", ""),
        gcloud=first["gcloud"].ok,
        account=first["account"].text.strip() if first["account"].ok else "",
        project_state=_json(first["project"], {}).get("lifecycleState", ""),
        billing=_json(first["billing"], {}).get("billingEnabled"),
        apis=apis,
        state_bucket=first["bucket"].ok,
        deployer=_exists(first["deployer"]),
        regions=_names(later.get("regions")),
        queue_regions=_names(later.get("queue_regions")),
        schedule_regions=_names(later.get("schedule_regions")),
        runtimes=_names(later.get("runtimes")),
        functions=None if labels is None else {name: own for (at, name), own in labels.items() if at == target.region},
        elsewhere={place: each for place, each in (labels or {}).items() if place[0] != target.region},
        databases=_by_name(later.get("databases"), "locationId"),
        editions=_by_name(later.get("databases"), "databaseEdition") or {},
        modes=_by_name(later.get("databases"), "type") or {},
        keys=_keys(later.get("databases")),
        declared=declared,
        catalogue_error=catalogue_error,
        needed_apis=_needed_apis(target, declared),
        variables=frozenset(VARIABLE.findall((target.folder.kit.infra / "variables.tf").read_text("utf-8"))),
    )


def account(target: Target, run: Run) -> str:
    """Return gcloud's active account, or an empty text."""
    outcome = _ask({"account": ACCOUNT}, target.root, run)["account"]
    return outcome.text.strip() if outcome.ok else ""


def signed_in(target: Target, run: Run) -> str:
    """Return gcloud's active account. Raises `CommandFailed` with what to do if there is none."""
    outcome = _ask({"account": ACCOUNT}, target.root, run)["account"]
    if outcome.status == NOT_FOUND:
        raise CommandFailed("gcloud is not on the PATH. Install it: https://cloud.google.com/sdk/docs/install")
    if not outcome.ok:
        raise CommandFailed(outcome.error.strip())
    if not (active := outcome.text.strip()):
        raise CommandFailed("gcloud has no active account. Run `gcloud auth login`, then this command again.")
    return active


def queues(target: Target, run: Run, region: str = "") -> frozenset[str] | None:
    """Return the names of the queues in a region, or None if they cannot be read."""
    question = f"gcloud tasks queues list --location={region or target.region} --project={target.project}"
    listed = _ask({"queues": f"{question} --format=value(name.basename())"}, target.root, run)["queues"]
    return _names(listed)


def indexes(target: Target, run: Run) -> Sequence[Mapping[str, Any]]:
    """Return the composite indexes of the database, or an empty list if they cannot be read."""
    question = f"gcloud firestore indexes composite list --database={target.database} --project={target.project}"
    found: Sequence[Mapping[str, Any]] = _json(_ask({"": f"{question} --format=json"}, target.root, run)[""], ())
    return found


def backup_schedules(target: Target, run: Run) -> Sequence[Mapping[str, Any]]:
    """Return the backup schedules of the database, or an empty list if they cannot be read."""
    question = f"gcloud firestore backups schedules list --database={target.database} --project={target.project}"
    found: Sequence[Mapping[str, Any]] = _json(_ask({"": f"{question} --format=json"}, target.root, run)[""], ())
    return found


def _first_round(target: Target) -> dict[str, str]:
    return {
        "terraform": "terraform version -json",
        "gcloud": "gcloud --version",
        "account": ACCOUNT,
        "project": f"gcloud projects describe {target.project} --format=json",
        "billing": f"gcloud billing projects describe {target.project} --format=json",
        "services": f"gcloud services list --enabled --project={target.project} --format=value(config.name)",
        "bucket": f"gcloud storage buckets describe gs://{target.state_bucket} --format=value(name)",
        "deployer": f"gcloud iam service-accounts describe {target.deployer} --project={target.project}",
    }


def _second_round(target: Target, apis: frozenset[str]) -> dict[str, str]:
    where = f"--project={target.project}"
    functions = {
        "regions": f"gcloud functions regions list --gen2 {where} --format=value(name.basename())",
        "runtimes": f"gcloud functions runtimes list --region={target.region} {where} --format=value(name)",
        "functions": f"gcloud functions list --v2 --regions=- {where} --format=json",
    }
    questions = {
        FUNCTIONS_API: functions,
        FIRESTORE_API: {"databases": f"gcloud firestore databases list {where} --format=json"},
        TASKS_API: {"queue_regions": f"gcloud tasks locations list {where} --format=value(locationId)"},
        SCHEDULER_API: {"schedule_regions": f"gcloud scheduler locations list {where} --format=value(locationId)"},
    }
    return {name: text for api in questions.keys() & apis for name, text in questions[api].items()}


def _ask(questions: Mapping[str, str], folder: Path, run: Run) -> dict[str, Outcome]:
    quiet = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CHECKPOINT_DISABLE": "1"}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda text: run(text.split(), folder=folder, environment=quiet), questions.values())
        return dict(zip(questions, answers, strict=True))


def _json(outcome: Outcome | None, otherwise: Any) -> Any:
    return json.loads(outcome.text) if outcome is not None and outcome.ok and outcome.text.strip() else otherwise


def _exists(outcome: Outcome) -> bool | None:
    return True if outcome.ok else False if ABSENT in outcome.error else None


def _names(outcome: Outcome | None) -> frozenset[str] | None:
    return frozenset(outcome.text.split()) if outcome is not None and outcome.ok else None


def _labels(outcome: Outcome | None) -> Mapping[tuple[str, str], Mapping[str, str]] | None:
    """Return the labels of functions by region and name, from projects/PROJECT/locations/REGION/functions/NAME."""
    found = _json(outcome, None)
    return None if found is None else {_place(each["name"]): each.get("labels", {}) for each in found}


def _place(resource_name: str) -> tuple[str, str]:
    parts = resource_name.split("/")
    return parts[3], parts[-1]


def _by_name(outcome: Outcome | None, field_name: str) -> Mapping[str, str] | None:
    found = _json(outcome, None)
    return None if found is None else {_last(each["name"]): each.get(field_name, "") for each in found}


def _keys(outcome: Outcome | None) -> Mapping[str, str]:
    found = _json(outcome, [])
    return {_last(each["name"]): each["cmekConfig"]["kmsKeyName"] for each in found if each.get("cmekConfig")}


def _last(resource_name: str) -> str:
    return resource_name.rpartition("/")[2]


def _needed_apis(target: Target, declared: Sequence[Function]) -> frozenset[str]:
    """Return the APIs that a deployment and its bootstrap need, without that of budgets, which few want.

    An API that nothing uses stays off: that of Compute Engine would create an account that is often an editor.
    """
    of_the_bootstrap = API.findall((target.folder.kit.infra / "bootstrap" / "main.tf").read_text("utf-8"))
    has_events = not declared or any("event" in function.invoked_by for function in declared)
    return APIS.union(
        of_the_bootstrap,
        EVENTS_APIS if has_events else (),
        [COMPUTE_API] if target.setting("domain", "") else (),
        [SECRETS_API] if any(function.secrets for function in declared) else (),
    )


def _catalogue(target: Target) -> tuple[Sequence[Function], str]:
    try:
        return tuple(target.catalogue.functions.values()), ""
    except (CatalogueError, OSError) as error:
        return (), str(error)
