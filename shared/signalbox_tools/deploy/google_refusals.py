"""Google's refusals, as Terraform prints them: those that are transient, and the remedies for the others.

Pure. A fresh project refuses many requests that it accepts a few minutes later: rights, APIs and service agents take
time to take effect everywhere. `TABLE` has each such refusal with its text, the source of that text, and the waits
before each further try. It also has permanent refusals, with their remedies. The first entry that matches applies.

`waits` are the seconds before the second, third and fourth try of a resource, and so also limit the number of tries. If
there are none, waiting does not help. IAM documents "typically 2 minutes, potentially 7 minutes or longer" for a right,
so its waits sum up to ten.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

RIGHTS = (120.0, 180.0, 300.0)
APIS = (60.0, 120.0, 180.0)
SHORT = (30.0, 60.0, 120.0)
BUILDS = (60.0, 60.0, 60.0, 120.0, 120.0, 120.0, 120.0, 120.0, 120.0)  # more tries: each builds a few more functions
READ_TOO_EARLY = "read too early"
INTERNAL = "internal"
AGAIN = "Run the command again in a few minutes: it continues from what exists."
PROPAGATION = "https://cloud.google.com/iam/docs/access-change-propagation"
CONSTRAINTS = "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints"
ISSUES = "https://github.com/hashicorp/terraform-provider-google/issues"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal. `text` is a pattern of the printed message, `waits` has the seconds before each further try."""

    name: str
    text: str
    meaning: str
    source: str
    waits: tuple[float, ...] = ()
    remedy: str = AGAIN


FOR_A_WHILE = (
    Refusal(
        "sources",
        r"Access to bucket gcf-v2-sources-\S+ denied|does not have storage\.objects\.get access",
        "The account that builds functions may read their sources, but the right has not taken effect everywhere.",
        f"{ISSUES}/20571, {PROPAGATION}",
        RIGHTS,
    ),
    Refusal(
        "repository",
        r"Unable to retrieve the repository metadata",
        "Cloud Functions may not read the repository of images yet: in a new project, its own rights take effect late.",
        "https://github.com/firebase/firebase-tools/issues/5588",
        RIGHTS,
    ),
    Refusal(
        "eventarc",
        r"Permission denied while using the Eventarc Service Agent",
        "Eventarc's service agent was created when its API was enabled, and has no rights yet.",
        f"{ISSUES}/25294, https://cloud.google.com/eventarc/docs/troubleshooting",
        RIGHTS,
    ),
    Refusal(
        "api",
        r"API has not been used in project \S+ before or it is disabled|SERVICE_DISABLED|accessNotConfigured",
        "An API was enabled a moment ago, and not on all of Google's servers yet.",
        f"{ISSUES}/8214",
        APIS,
    ),
    Refusal(
        "firestore",
        r"too much contention on these|cross-transaction contention|underlying data changed|BootstrapDatabase",
        "In a new database, Firestore applies settings of fields and indexes one at a time.",
        f"https://github.com/firebase/firebase-tools/issues/1119, {ISSUES}/16329",
        SHORT,
    ),
    Refusal(
        READ_TOO_EARLY,
        r"Provider produced inconsistent result after apply.*Root (object|resource) was present, but now absent",
        "The resource was created, but the read that followed did not return it yet.",
        f"{ISSUES}/22533, {ISSUES}/21694",
        (5.0, 30.0, 60.0),
    ),
    Refusal(
        "account",
        r"Service ?account:? ?\S+ (does not exist|was not found)",
        "A service account was created a moment ago, and not on all of Google's servers yet.",
        "https://cloud.google.com/iam/docs/service-accounts-create",
        APIS,
    ),
    Refusal(
        "field",
        r"(Creating|Updating|Deleting) (Field|Index).{0,80}(timeout|timed out)",
        "A setting of Firestore's fields takes longer than Terraform waits. Firestore continues to apply it.",
        "https://cloud.google.com/firestore/docs/query-data/indexing",
        SHORT,
    ),
    Refusal(
        "database name",
        r"Database ID .{1,100} is not available.{0,200}retry in \d+ second",
        "A database of this name was deleted a few minutes ago, and the name is not free yet.",
        "https://cloud.google.com/firestore/docs/manage-databases#delete_a_database",
        RIGHTS,
    ),
    Refusal(
        "metric",
        r"Cannot find metric\(s\) that match type",
        "Alerts can use a metric only some minutes after its first value, or after it was declared.",
        "https://cloud.google.com/monitoring/alerts/using-alerting-api",
        RIGHTS,
    ),
    Refusal(
        "rights",
        r"Permission '?(iam\.serviceAccounts\.actAs|[a-zA-Z]+\.[a-zA-Z.]+)'? denied|does not have permission to act as",
        "The deploying account lacks a right, or it was granted a moment ago.",
        PROPAGATION,
        RIGHTS,
        "If it remains, ask the project's owner for the right that is named; `signalbox bootstrap` grants Cloud "
        "Build's.",
    ),
    Refusal(
        "builds",
        r"Build failed with status: EXPIRED|concurrent builds|Quota exceeded for quota metric '[^']*(Build|mutation)",
        "More functions are built at once than the project's quota allows; the others follow.",
        "https://github.com/firebase/firebase-tools/issues/7268, https://cloud.google.com/build/quotas",
        BUILDS,
    ),
    Refusal(
        "token",
        r"invalid authentication credentials|Error 401",
        "The login's token has expired after an hour. The next try uses a new one.",
        "https://cloud.google.com/docs/authentication/token-types",
        (1.0, 1.0, 1.0),
        "gcloud auth login",
    ),
    Refusal(
        INTERNAL,
        r"Error 50[0234]\b|Error code (13|14), message: (?!Build failed)|connection reset by peer|handshake timeout",
        "One of Google's servers failed.",
        "https://cloud.google.com/apis/design/errors#error_retries",
        SHORT,
    ),
)

FOR_GOOD = (
    Refusal(
        "account quota",
        r"Service account limit|Maximum number of service accounts on project reached",
        "The project has 100 service accounts, its quota. docs/deployment.md has how many an environment takes.",
        "https://cloud.google.com/iam/quotas",
        remedy="Deploy each environment into its own project, or ask for more at IAM & Admin, Quotas.",
    ),
    Refusal(
        "group",
        r"(Group|User|group:|user:)\s?\S+ does not exist|Invalid principal|INVALID_MEMBER",
        "A member of `invokers`, `deployers` or `deployer` does not exist.",
        "https://cloud.google.com/iam/docs/troubleshoot-policies",
        remedy="Correct the address in environments/ENV.tfvars.json, or create the group.",
    ),
    Refusal(
        "start",
        r"Container Healthcheck failed|failed to start and (then )?listen on the port",
        "The function was built, but its code fails while it is loaded.",
        "https://cloud.google.com/run/docs/troubleshooting#container-failed-to-start",
        remedy="Read the function's log (`signalbox logs`), correct what its main.py imports, deploy again.",
    ),
    Refusal(
        "queue name",
        r"queue cannot be created because a queue with this name existed too recently",
        "A queue of this name was deleted. The name stays taken for 3 days (documented) or 7 (reported).",
        "https://cloud.google.com/tasks/docs/deleting-appengine-queues-and-tasks",
        remedy="Set another prefix in environments/ENV.tfvars.json, or deploy again after 7 days.",
    ),
    Refusal(
        "database exists",
        r"Database already exists",
        "The database exists but is not in Terraform's state: an earlier deployment left it, or you created it.",
        "https://cloud.google.com/firestore/docs/manage-databases",
        remedy='`signalbox adopt` takes it into the state; or set "create_database": false in '
        "environments/ENV.tfvars.json.",
    ),
    Refusal(
        "exists",
        r"already exists|alreadyExists|already own it|Error 409: Requested entity",
        "It exists but is not in Terraform's state: an earlier deployment was killed before it saved the state.",
        "infra/README.md#when-a-deployment-is-interrupted",
        remedy="signalbox adopt",
    ),
    Refusal(
        "region",
        r"due to quota restrictions, cannot run builds in this region",
        "New and trial projects can build only in some regions.",
        "https://cloud.google.com/build/docs/locations#restricted_regions_for_some_projects",
        remedy="Deploy to another region (--region us-central1 or europe-west1), or ask Google's support to lift it.",
    ),
    Refusal(
        "location",
        r"is not a valid location|Location '?\S+ is not found or access is unauthorized"
        r"|not (a )?supported (location|region)|not available in (the )?(location|region)",
        "One of the services is not offered in this region: Cloud Tasks and Cloud Scheduler are in fewer regions than "
        "Cloud Functions.",
        f"{ISSUES}/17057, https://cloud.google.com/about/locations",
        remedy="Choose a region that `gcloud tasks locations list` and `gcloud scheduler locations list` both name. "
        "Functions and queues are in one region; the database may be in another (database_location).",
    ),
    Refusal(
        "key",
        r"cloudkms\.cryptoKeyVersions\.|CMEK|customer[- ]managed encryption key",
        "Firestore may not use the key of cmek_key: databases with such a key have a quota of 0 until Google raises "
        "it, and Firestore's service agent needs the right to use the key.",
        "https://cloud.google.com/firestore/native/docs/cmek",
        remedy="Ask for the quota of databases with customer-managed keys (the form is on the page below), and grant "
        "Firestore's service agent roles/cloudkms.cryptoKeyEncrypterDecrypter on the key. Then deploy again.",
    ),
    Refusal(
        "instances",
        r"maxScale may not exceed|Quota exceeded for total allowable CPU|CpuAllocPerProjectRegion",
        "The project's quota of processors in this region is too small for the functions' maximum number of instances.",
        "https://cloud.google.com/run/quotas",
        remedy="Set a smaller instances_max in the catalogue, or ask for more at IAM & Admin, Quotas.",
    ),
    Refusal(
        "members",
        r"do(es)? not belong to a permitted customer|iam\.(managed\.allowedPolicyMembers|allowedPolicyMemberDomains)"
        r"|is not in permitted organization",
        "The organisation allows rights for its own members only (domain-restricted sharing), not for allUsers.",
        "https://cloud.google.com/resource-manager/docs/organization-policy/restricting-domains",
        remedy="Remove `public: true` and foreign invokers, or ask the organisation's administrator for an exception "
        "from constraints/iam.allowedPolicyMemberDomains (or iam.managed.allowedPolicyMembers) for this project.",
    ),
    Refusal(
        "ingress",
        r"cloudfunctions\.allowedIngressSettings|run\.allowedIngress",
        "The organisation does not allow calls from outside. Functions for people need ALLOW_ALL, or a domain.",
        CONSTRAINTS,
        remedy="Set domain and domain_only (docs/custom-domain.md), or ask the organisation's administrator to allow "
        "ALLOW_ALL in addition to ALLOW_INTERNAL_ONLY in "
        "constraints/cloudfunctions.allowedIngressSettings (and run.allowedIngress: all) for this project.",
    ),
    Refusal(
        "locations",
        r"gcp\.resourceLocations",
        "The organisation does not allow resources in this region.",
        CONSTRAINTS,
        remedy="Deploy to an allowed region (--region, database_location), or ask the organisation's administrator for "
        "this one in constraints/gcp.resourceLocations.",
    ),
    Refusal(
        "accounts",
        r"iam\.(managed\.)?disableServiceAccountCreation|Service account creation is not allowed",
        "The organisation does not allow new service accounts in this project; the kit creates up to seven, and one "
        "for each of your functions.",
        CONSTRAINTS,
        remedy="Ask the organisation's administrator for an exception from "
        "constraints/iam.disableServiceAccountCreation (or iam.managed.disableServiceAccountCreation).",
    ),
    Refusal(
        "perimeter",
        r"vpcServiceControlsUniqueIdentifier|Request is prohibited by organization's policy",
        "A perimeter of VPC Service Controls around the project refuses the call. The kit does not support perimeters: "
        "its functions are called from the internet, and it calls Google's APIs from there.",
        "https://github.com/GoogleCloudPlatform/terraform-google-cloud-functions/issues/109",
        remedy="Deploy into a project outside of the perimeter, or ask the organisation's administrator which rule "
        "refuses the call: the identifier in Google's message finds it in the audit log.",
    ),
    Refusal(
        "services",
        r"gcp\.restrictServiceUsage|disallowed by (the )?organization'?s",
        "The organisation does not allow this service in the project. Google's message names it.",
        "https://cloud.google.com/resource-manager/docs/organization-policy/restricting-resources",
        remedy="Ask the organisation's administrator to allow the service in constraints/gcp.restrictServiceUsage; "
        "`signalbox plan` names the services that are needed and not enabled.",
    ),
    Refusal(
        "policy",
        r"violated? (one or more )?(Org Polic|organization polic)|orgpolicy:|Constraint '?constraints/"
        r"|denied by (custom )?org(anization)? polic|customConstraints/|constraints/[a-zA-Z]+\.managed\.",
        "A policy of the organisation forbids it. Google's message names the constraint.",
        CONSTRAINTS,
        remedy="Ask the organisation's administrator for an exception from that constraint for this project.",
    ),
    Refusal(
        "billing",
        r"BILLING_DISABLED|requires billing|billing (account )?.{0,80}(disabled|not enabled|closed)",
        "Billing is disabled, or the billing account is closed.",
        "https://cloud.google.com/billing/docs/how-to/modify-project",
        remedy="gcloud billing projects link PROJECT --billing-account=ACCOUNT (gcloud billing accounts list)",
    ),
    Refusal(
        "lock",
        r"Error acquiring the state lock",
        "Another deployment of this environment is running, or one was killed and left its lock.",
        "infra/README.md#when-a-deployment-is-interrupted",
        remedy="Wait for the other deployment. If there is none, run `signalbox unlock`, then `signalbox adopt`.",
    ),
    Refusal(
        "build",
        r"Build failed",
        "The function's own code or requirements do not build.",
        "https://cloud.google.com/functions/docs/troubleshooting",
        remedy="Open the build's log at the address in Google's message, correct the function, and deploy again.",
    ),
)

ORGANISATION = ("perimeter", "members", "ingress", "locations", "accounts", "services", "policy", "key")
TABLE = (
    *(each for each in FOR_GOOD if each.name in ORGANISATION),
    *FOR_A_WHILE,
    *(each for each in FOR_GOOD if each.name not in ORGANISATION),
)
"""The refusals in the order of matching. A policy's refusal also states that permission was denied, but waiting does
not help then.
"""

DATABASE = "google_firestore_database."
SHOWN = 400  # characters of Google's message
WITH = re.compile(r"^\s*with (\S+),$", re.MULTILINE)
APPLIED = re.compile(r"When applying changes to (\S+), provider")
UNKNOWN = Refusal(
    name="unknown",
    text="",
    meaning="This refusal is not among those that are known to pass.",
    source="",
    remedy="Read what Google said, correct it, and run the command again: it continues from what exists.",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that Terraform printed: the resource, the message, and the table's entry for it."""

    address: str
    said: str
    refusal: Refusal


def failures(printed: str) -> list[Failure]:
    """Return the errors that Terraform printed, each with its entry of the table or `UNKNOWN`."""
    plain = re.sub(r"^[│╷╵] ?", "", printed, flags=re.MULTILINE)
    blocks = re.split(r"^Error: ", plain, flags=re.MULTILINE)[1:] or [plain]
    return [_failure(block) for block in blocks]


def wait_seconds(found: Sequence[Failure], met: Mapping[tuple[str, str], int]) -> float | None:
    """Return the seconds to wait, given how often each refusal (its name, the resource's address) has occurred.

    Return None if one of the refusals is permanent or has used all its waits.
    """
    waits = [failure.refusal.waits[met[failure.refusal.name, failure.address] - 1 :][:1] for failure in found]
    return max(wait[0] for wait in waits) if waits and all(waits) else None


def may_be_made(found: Sequence[Failure]) -> frozenset[str]:
    """Return the addresses of resources that exist although the state may lack them.

    Terraform read them too early, or a server failed while it created them. A server's failure is not enough evidence
    for a database.
    """
    return frozenset(
        each.address
        for each in found
        if each.refusal.name == READ_TOO_EARLY or (each.refusal.name == INTERNAL and DATABASE not in each.address)
    )


def reasons(found: Sequence[Failure]) -> list[str]:
    """Return a line for each different refusal, with the number of its resources and its meaning."""
    met = {failure.refusal: [each for each in found if each.refusal == failure.refusal] for failure in found}
    return [f"{refusal.meaning} ({_places(each)})" for refusal, each in met.items()]


def report(found: Sequence[Failure]) -> str:
    """Return Google's message, its meaning and the remedy. Refusals that waiting cannot resolve come first."""
    last = [failure for failure in found if not failure.refusal.waits] or list(found)
    kinds = {failure.refusal.name: failure for failure in reversed(last)}
    return "\n".join(line for failure in reversed(kinds.values()) for line in _explained(failure))


def _failure(block: str) -> Failure:
    named = WITH.search(block)
    said = " ".join(block[: named.start() if named else None].split())
    whole = " ".join(block.split())
    named = named or APPLIED.search(whole)
    refusal = next((each for each in TABLE if re.search(each.text, whole, re.IGNORECASE)), UNKNOWN)
    return Failure(named[1] if named else "", said, refusal)


def _places(found: Sequence[Failure]) -> str:
    first = found[0].address or found[0].said[:60]
    return first if len(found) == 1 else f"{first} and {len(found) - 1} more"


def _explained(failure: Failure) -> Iterator[str]:
    where = f" for {failure.address}" if failure.address else ""
    yield f"Google said{where}: {failure.said[:SHOWN]}"
    yield f"  It means: {failure.refusal.meaning}"
    if failure.refusal.waits:
        yield "  Waiting was tried, and did not help this time."
    yield f"  To do: {failure.refusal.remedy}"
    if failure.refusal.source:
        yield f"  See: {failure.refusal.source}"
