"""List everything that is missing before anything is changed, each with the command that fixes it.

Pure: `lacks` compares facts with the needs of a deployment. Facts that cannot be read are not reported: an account that
may deploy need not be allowed to see the billing.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from signalbox.catalogue.project import SETTINGS
from signalbox_tools.catalogue_lock import has_kit_account
from signalbox_tools.deploy import deployed_place
from signalbox_tools.deploy.deployment_target import Target, databases_below
from signalbox_tools.deploy.project_facts import Facts

TERRAFORM_MIN = (1, 9)  # infra/versions.tf: its validations look at more than one variable
ACCOUNT_ID_MAX = 30  # Google's bound on a service account's id, which holds prefix and function name
PROJECT_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
PREFIX = re.compile(r"([a-z][a-z0-9]*(-[a-z0-9]+)*)?")
NEEDED_FIRST = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
"""Without these two, nothing can be read. A plan does not need the others."""
APIS_AT_ONCE = 20  # a limit of the call
ENABLE, ENABLE_LATER, BOOTSTRAP = "enable", "enable later", "bootstrap"


@dataclass(frozen=True, slots=True)
class Missing:
    """Something missing or wrong, and the remedy. If it has an `offer`, `signalbox deploy` can do it.

    Only `signalbox deploy` needs APIs with ENABLE_LATER.
    """

    what: str
    remedy: str
    offer: str = ""

    def __str__(self) -> str:
        return f"  - {self.what}\n      {self.remedy}"


def missing(target: Target, facts: Facts) -> list[Missing]:
    """List everything that a deployment lacks. The list is empty if it is ready."""
    ready = [*missing_access(target, facts), *_bootstrap(target, facts)]
    if moved := list(_moved(target, facts)):  # everything else would be compared with another place
        return [*ready, *moved]
    apart = () if facts.catalogue_error else _apart(target)
    named = (*_names(target, facts), *apart, *_clashes(target, facts))
    return [*ready, *_place(target, facts), *named, *_database(target, facts)]


def absent_callers(target: Target, facts: Facts) -> Missing | None:
    """Return that functions of the first database are not deployed which this database's functions let call.

    A plan does not need them: Terraform would fail in the middle of the deployment, since Google gives rights only to
    accounts that exist.
    """
    first = target.first
    callers = {caller for names in target.catalogue.invokers_elsewhere.values() for caller in names}
    absent = sorted(each for each in callers if first.service(each) not in (facts.functions or {}))
    if facts.functions is None or not absent:
        return None
    place = replace(first, region=target.region)
    return Missing(
        f"{target.environment} gives functions of {first.environment} the right to call its own, and these are not "
        f"deployed: {', '.join(absent)}. Google gives no right to an account that does not exist.",
        f"signalbox deploy {place.options}  # deploys {first.environment}, and then its databases",
    )


def missing_access(target: Target, facts: Facts) -> Iterator[Missing]:
    """List everything that the preparation of a project lacks: programs, an account, a project with billing."""
    yield from _programs(facts)
    if facts.gcloud and facts.account:
        yield from _project(target, facts)


def _programs(facts: Facts) -> Iterator[Missing]:
    if not facts.terraform:
        yield Missing("Terraform is not on the PATH.", "Install it: https://developer.hashicorp.com/terraform/install")
    elif _version(facts.terraform) < TERRAFORM_MIN:
        yield Missing(
            f"Terraform {facts.terraform} is too old: {'.'.join(map(str, TERRAFORM_MIN))} or newer is needed.",
            "Install a newer one: https://developer.hashicorp.com/terraform/install (in Cloud Shell: unpack it into "
            '~/bin, which stays, and export PATH="$HOME/bin:$PATH")',
        )
    if not facts.gcloud:
        yield Missing("gcloud is not on the PATH.", "Install it: https://cloud.google.com/sdk/docs/install")
        return
    if not facts.account:
        yield Missing("gcloud has no active account.", "gcloud auth login")


def _project(target: Target, facts: Facts) -> Iterator[Missing]:
    if not PROJECT_ID.fullmatch(target.project):
        yield Missing(f"{target.project!r} is not a project's id.", "gcloud projects list")
    elif facts.project_state != "ACTIVE":
        yield Missing(
            f"{facts.account} finds no active project {target.project}.",
            f"gcloud projects create {target.project}, or choose one of: gcloud projects list",
        )
    else:
        yield from _enabled(target, facts)


def _enabled(target: Target, facts: Facts) -> Iterator[Missing]:
    if facts.billing is False:
        yield Missing(
            f"Billing is off for {target.project}.",
            f"gcloud billing projects link {target.project} --billing-account=ACCOUNT (gcloud billing accounts list)",
        )
    if facts.apis is None:
        yield Missing(
            f"{facts.account} may not see the APIs of {target.project}, and so not enable them.",
            f"gcloud projects add-iam-policy-binding {target.project} --member={member(facts.account)} "
            "--role=roles/serviceusage.serviceUsageAdmin",
        )
    else:
        first = [api for api in NEEDED_FIRST if api not in facts.apis]
        off = [*first, *sorted(facts.needed_apis - facts.apis - set(NEEDED_FIRST))]
        for begin in range(0, len(off), APIS_AT_ONCE):  # all before the bootstrap: they take effect after a while
            apis = off[begin : begin + APIS_AT_ONCE]
            enable = f"gcloud services enable {' '.join(apis)} --project={target.project}"
            yield Missing(f"APIs are off: {', '.join(apis)}.", enable, ENABLE if first else ENABLE_LATER)


def _bootstrap(target: Target, facts: Facts) -> Iterator[Missing]:
    """Report a bootstrap that was never run, or that ended after it made the bucket and before it made the account."""
    if not (facts.gcloud and facts.account and facts.project_state == "ACTIVE"):
        return
    if not facts.state_bucket:
        what = f"There is no bucket {target.state_bucket} for Terraform's state, nor an account that deploys."
        yield Missing(what, _command("bootstrap", target), BOOTSTRAP)
    elif facts.deployer is False:
        what = f"There is no account {target.deployer}: the bootstrap was not finished."
        yield Missing(what, _command("bootstrap", target), BOOTSTRAP)


def _place(target: Target, facts: Facts) -> Iterator[Missing]:
    if target.settings is None:
        folders = (target.folder.environments, target.folder.kit.infra / "environments")
        files = (path.name for folder in folders for path in folder.glob(f"*{SETTINGS}"))
        known = sorted({name.removesuffix(SETTINGS) for name in files})
        yield Missing(f"There is no {target.own_file}.", f"Choose ENV: {', '.join(known)}")
    for name in sorted((target.settings or {}).keys() - facts.variables):  # Terraform would only warn
        like = difflib.get_close_matches(name, facts.variables, 1)
        yield Missing(
            f"{target.own_file} has the setting {name!r}, which does not exist.",
            f"Correct it to {like[0]!r}" if like else "Remove it. infra/variables.tf of the kit has all settings",
        )
    runtimes = {each.runtime for each in facts.declared}
    unknown = facts.regions is not None and target.region not in facts.regions
    if unknown or not REGION.fullmatch(target.region):
        yield Missing(
            f"{target.region} is not a region of Cloud Functions.",
            f"gcloud functions regions list --gen2 --project={target.project}",
        )
    elif lacking_services := [
        f"{name} (gcloud {command} locations list --project={target.project})"
        for name, command, regions in (
            ("Cloud Tasks", "tasks", facts.queue_regions),
            ("Cloud Scheduler", "scheduler", facts.schedule_regions),
        )
        if regions is not None and target.region not in regions
    ]:
        yield Missing(
            f"{target.region} is a region of Cloud Functions, but not of {' and '.join(lacking_services)}.",
            "Choose a region that has all of them: --region. The database may be in another one (database_location)",
        )
    elif facts.runtimes is not None and (lacking := runtimes - facts.runtimes):
        yield Missing(
            f"{target.region} does not offer the runtime {', '.join(sorted(lacking))}.",
            f"gcloud functions runtimes list --region={target.region} --project={target.project}; `runtime` in a "
            "function's entry of the catalogue chooses another",
        )


def _names(target: Target, facts: Facts) -> Iterator[Missing]:
    if facts.catalogue_error:
        yield Missing(facts.catalogue_error, f"Correct {target.folder.catalogue.relative_to(target.root)}")
    if not PREFIX.fullmatch(target.setting("prefix", "")):
        yield Missing(
            f"The prefix {target.setting('prefix', '')!r} is not lower case words joined by single hyphens.",
            f"Change prefix in {target.own_file}",
        )
    accounts = [f"fn-{target.service(each.name)}" for each in facts.declared if not has_kit_account(each)]
    long = [account for account in accounts if len(account) > ACCOUNT_ID_MAX]
    if long:
        yield Missing(
            f"These service accounts' ids are longer than {ACCOUNT_ID_MAX} characters: {', '.join(long)}.",
            f"Shorten prefix in {target.own_file}, or the function's name",
        )


def _moved(target: Target, facts: Facts) -> Iterator[Missing]:
    """Report an environment that runs in another region: the region of the command was forgotten or is wrong."""
    names, ours = {target.service(each.name) for each in facts.declared}, _labels_of(target)
    found = {
        region
        for (region, name), labels in facts.elsewhere.items()
        if name in names and {key: labels.get(key, "") for key in ours} == ours
    }
    if found and not names & (facts.functions or {}).keys():
        yield Missing(*deployed_place.other_region(target, min(found)))


def _labels_of(target: Target) -> dict[str, str]:
    purpose = target.setting("environment", target.environment)
    return {"app": "signalbox", "environment": purpose, "database": target.of_database}


def _apart(target: Target) -> Iterator[Missing]:
    """Report settings with which the databases of an environment would not be separate, or not reach each other."""
    first = target.first
    for other in (first, *databases_below(first)):
        if other.environment != target.environment and other.database == target.database:
            yield Missing(
                f"{target.environment} and {other.environment} have the same database, {target.database}: their "
                "functions would not be separated.",
                f"Change database in {target.own_file} or {other.own_file}",
            )
    if not target.of_database:
        return
    prefix, own_prefix = target.setting(deployed_place.PREFIX, ""), target.derived_prefix
    region = first.setting(deployed_place.REGION, target.region)
    for name, value, own in (
        (deployed_place.PREFIX, prefix, own_prefix),
        (deployed_place.REGION, target.region, region),
    ):
        if value != own:
            yield Missing(
                f"The {name} of {target.environment} is {value!r}, and {own!r} follows from {first.environment}: its "
                "functions would call other addresses, and accounts with other names could call these functions.",
                f"Remove {name} from {target.own_file} and from the command",
            )
    if target.setting("domain_only", False) and target.catalogue.invokers_elsewhere:
        yield Missing(
            f"{target.own_file} has domain_only: Google would refuse the calls of functions of {first.environment}.",
            f"Remove domain_only from {target.own_file}",
        )


def _clashes(target: Target, facts: Facts) -> Iterator[Missing]:
    """Report functions of other deployments that have the same names.

    Terraform would fail half-way, or overwrite these functions. If the file of an environment has another purpose than
    its functions, the database would lose its protection, or be replaced by another one.
    """
    found = facts.functions or {}
    ours = _labels_of(target)
    names = [name for each in facts.declared if (name := target.service(each.name)) in found]
    taken = [name for name in names if {key: found[name].get(key, "") for key in ours} != ours]
    purposes = {found[name].get("environment", "") for name in taken if found[name].get("app") == ours["app"]}
    if taken and len(purposes) == 1 and purposes != {ours["environment"]} and len(taken) == len(names):
        [purpose] = purposes
        yield Missing(
            f"The functions of {target.environment} are deployed as {purpose}, not as {ours['environment']}: their "
            "database would lose its protection, or another one would be taken.",
            f'Write "environment": "{purpose}" into {target.own_file}. If they belong to another deployment, choose '
            "another prefix there",
        )
    elif taken:
        yield Missing(
            f"{target.project} has functions of another deployment with the same names: {', '.join(taken)}.",
            f"Choose another prefix in {target.own_file}",
        )


ENTERPRISE = "ENTERPRISE"
DATASTORE = "DATASTORE_MODE"


def _database(target: Target, facts: Facts) -> Iterator[Missing]:
    location = (facts.databases or {}).get(target.database)
    creates = target.setting("create_database", True)
    if location and location != target.database_location:
        yield Missing(
            f"The database {target.database} is in {location}, not in {target.database_location}: its events would "
            "get lost.",
            f'Set "database_location": "{location}" in {target.own_file}',
        )
    if facts.editions.get(target.database) == ENTERPRISE:
        yield Missing(
            f"The database {target.database} is of Firestore's Enterprise edition, which indexes no field by itself: "
            "every query of the kit would read a whole collection.",
            f'Set "database": "another-name" in {target.own_file}: the kit makes it, of the Standard edition',
        )
    if facts.modes.get(target.database) == DATASTORE:
        yield Missing(
            f"The database {target.database} is in Datastore mode, which has neither documents nor their events.",
            f'Set "database": "another-name" in {target.own_file}: the kit makes it, in '
            "Native mode. Other databases of the project stay as they are",
        )
    key, wanted = facts.keys.get(target.database, ""), target.setting("cmek_key", "")
    if location and creates and key != wanted:
        remedy = f'Set "cmek_key": "{key}"' if key else "Remove cmek_key"
        yield Missing(
            f"The database {target.database} is encrypted with {key or 'a key of Google'}, not with "
            f"{wanted or 'a key of Google'}. Terraform would replace the database, with all its data.",
            f"{remedy} in {target.own_file}. Another key takes another database, into "
            "which a backup can be restored: gcloud firestore databases restore",
        )
    if not creates and facts.databases is not None and location is None:
        yield Missing(
            f"create_database is false, and there is no database {target.database}.",
            f"Remove create_database from {target.own_file}",
        )


def member(account: str) -> str:
    """Name an account as IAM does. gcloud names an identity of a workforce pool as IAM does."""
    if is_federated(account):
        return account
    return f"{'serviceAccount' if is_service_account(account) else 'user'}:{account}"


def is_federated(account: str) -> bool:
    """Return whether an account is an identity of a workforce or workload pool. It has no identity token."""
    return account.startswith(("principal://", "principalSet://"))


def is_service_account(account: str) -> bool:
    """Return whether an account is a service account."""
    return account.endswith(".gserviceaccount.com")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _command(goal: str, target: Target) -> str:
    return f"signalbox {goal} {target.options}"
