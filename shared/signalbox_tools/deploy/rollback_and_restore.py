"""Roll back functions to the revisions before the last deployment, or restore the data from its last backup. Nothing is
built.

A rollback moves traffic only. The revisions of one deployment are those created within an hour before the newest one
that serves; a function that the deployment did not change keeps its revision. A restore creates a new database from a
backup; the one in use does not change, and serves until the environment's file names the new one.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from signalbox_tools.deploy.confirmation import Aborted, Agree, agreed
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run
from signalbox_tools.function_deployments import deployments_of

ONE_DEPLOYMENT = timedelta(hours=1)
NEVER = datetime.max.replace(tzinfo=UTC)
SERVICE_LABEL = "serving.knative.dev/service"
ROLLED_BACK = """Rolled back. A deployment would move these functions forward again, so it is refused until it is run as
signalbox deploy {options} --forward. To lift the rollback without a deployment:
{lifts}"""
PINNED = """These functions do not serve their newest revision: they are rolled back. This deployment would send all of
their traffic to the code of this folder:
{pins}
If that code is right: signalbox deploy {options} --forward. To lift the rollback without a
deployment:
{lifts}"""
LIFT = "  gcloud run services update-traffic {service} --to-latest --region={region} --project={project}"
RESTORED = """The restore into {database} has begun. It takes minutes to hours:
`gcloud firestore operations list --database={database} --project={project}`
shows when it has ended. {old} is unchanged.
To switch, set in {file}
  "database": "{database}"
and run signalbox adopt: Terraform then manages {database}, with point-in-time recovery, delete protection and rules,
which a backup does not have. {old} stays as it is, outside of Terraform. Outside prod it is refused, since Terraform
would delete {old}: deploy another environment with the restored database. Tasks in the queues name units and leases of
the other database: keep the queues paused (signalbox pause), and empty them before signalbox resume. "Rollback and
restore" in docs/operations.md has the order."""
TIME_OF_A_BACKUP = re.compile(r"-[0-9]{8}-[0-9]{4}$")


@dataclass(frozen=True, slots=True)
class Move:
    """A function's traffic: from the revision that serves to the one before it."""

    service: str
    serving: str
    before: str


@dataclass(frozen=True, slots=True)
class History:
    """A function's revisions that have ever been ready, oldest first, and the index of the serving one, or -1."""

    service: str
    revisions: tuple[tuple[datetime, str], ...]
    place: int

    @property
    def newest_at(self) -> datetime:
        return self.revisions[-1][0]

    @property
    def serving_at(self) -> datetime:
        return self.revisions[self.place][0]

    @property
    def back(self) -> Move:
        return Move(self.service, self.revisions[self.place][1], self.revisions[self.place - 1][1])


@dataclass(frozen=True, slots=True)
class Recovery:
    """The steps of `signalbox rollback` and `restore`. It has functions to run programs, to print and to ask."""

    target: Target
    say: Callable[[str], None]
    agree: Agree
    run: Run

    def rollback(self) -> None:
        """Send the traffic of every function that the last deployment changed to its previous revision."""
        services = self._found()
        revisions = self._listed("run", "revisions", "list", f"--region={self.target.region}")
        found = moves({each["metadata"]["name"] for each in services}, services, revisions)
        if not found:
            raise Aborted(f"Nothing to roll back: no function of {self.target.environment} has an earlier revision.")
        for move in found:
            self.say(f"  {move.service}: {move.serving} -> {move.before}")
        agreed(self.agree, f"Send the traffic of these {len(found)} functions back?")
        for move in found:
            where = (f"--region={self.target.region}", "--quiet")
            self._gcloud("run", "services", "update-traffic", move.service, f"--to-revisions={move.before}=100", *where)
        lifts = self._lifts([move.service for move in found])
        self.say(ROLLED_BACK.format(options=self.target.options, lifts=lifts))

    def refuse_pinned(self) -> None:
        """Raise `Aborted` if functions of the environment are rolled back."""
        pinned = [each for each in map(_pin, self._services()) if each]
        if pinned:
            pins = "\n".join(f"  {pin.service} serves {pin.before}; the newest is {pin.serving}" for pin in pinned)
            lifts = self._lifts([pin.service for pin in pinned])
            raise Aborted(PINNED.format(pins=pins, options=self.target.options, lifts=lifts))

    def _services(self) -> list[dict[str, Any]]:
        """Return the Cloud Run services of the environment's functions."""
        functions = self.target.catalogue.functions.values()
        names = {self.target.service(each.name) for function in functions for each in deployments_of(function)}
        listed = self._listed("run", "services", "list", f"--region={self.target.region}")
        return [each for each in listed if each["metadata"]["name"] in names]

    def _found(self) -> list[dict[str, Any]]:
        if not (services := self._services()):
            raise Aborted(
                f"No function of {self.target.environment} runs in {self.target.region} of {self.target.project}. If "
                f'they run in another region, name it with --region (make: REGION=…), or set "region" in '
                f"{self.target.own_file}."
            )
        return services

    def _lifts(self, services: list[str]) -> str:
        where = {"region": self.target.region, "project": self.target.project}
        return "\n".join(LIFT.format(service=service, **where) for service in services)

    def restore(self) -> None:
        """Restore the newest backup of the environment's database into a new one."""
        backups = self._listed("firestore", "backups", "list", f"--location={self.target.database_location}")
        backup = newest(backups, self.target.database)
        if backup is None:
            raise Aborted(
                f"There is no finished backup of {self.target.database} in {self.target.database_location}. An "
                'environment with "backups": true, as prod, makes one a day. If the database is elsewhere, name its '
                f'location: "database_location" or "region" in {self.target.own_file}.'
            )
        name = TIME_OF_A_BACKUP.sub("", self.target.database)  # it may have been restored, and a name is short
        database = f"{name}-{_time(backup['snapshotTime']):%Y%m%d-%H%M}"
        self.say(f"The newest backup of {self.target.database} is of {backup['snapshotTime']}.")
        if any(each["name"].endswith(f"/{database}") for each in self._listed("firestore", "databases", "list")):
            self.say(f"{database} is there: an earlier restore made it, and may still be filling it.")
        else:
            agreed(self.agree, f"Restore it into the new database {database}?")
            source, into = f"--source-backup={backup['name']}", f"--destination-database={database}"
            self._gcloud("firestore", "databases", "restore", source, into)
        self.say(
            RESTORED.format(
                database=database, old=self.target.database, file=self.target.own_file, project=self.target.project
            )
        )

    def _listed(self, *command: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self._gcloud(*command, "--format=json") or "[]")
        return listed

    def _gcloud(self, *command: str) -> str:
        outcome = self.run(("gcloud", *command, f"--project={self.target.project}"), folder=self.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        return outcome.text


def moves(names: set[str], services: list[dict[str, Any]], revisions: list[dict[str, Any]]) -> list[Move]:
    """Return the moves that undo the last deployment of these functions.

    If only some of the functions still serve revisions of that deployment, a rollback was interrupted. Then only these
    functions are moved.
    """
    histories = [_history(each, revisions) for each in services if each["metadata"]["name"] in names]
    known = sorted((each for each in histories if each.place >= 0), key=lambda each: each.service)
    newest_at = max((each.newest_at for each in known), default=NEVER)
    rest = [each for each in known if each.place and each.serving_at == each.newest_at >= newest_at - ONE_DEPLOYMENT]
    serving_at = max((each.serving_at for each in known), default=NEVER)
    all_of_it = [each for each in known if each.place and each.serving_at >= serving_at - ONE_DEPLOYMENT]
    return [each.back for each in rest or all_of_it]


def newest(backups: list[dict[str, Any]], database: str) -> Mapping[str, Any] | None:
    """Return the newest finished backup of a database."""
    own = [each for each in backups if each["database"].endswith(f"/databases/{database}") and each["state"] == "READY"]
    return max(own, key=lambda each: _time(each["snapshotTime"]), default=None)


def _history(service: Mapping[str, Any], revisions: list[dict[str, Any]]) -> History:
    name, serving = service["metadata"]["name"], _serving(service)
    own = [each for each in revisions if each["metadata"].get("labels", {}).get(SERVICE_LABEL) == name]
    ready = [each["metadata"] for each in own if _ready(each) or each["metadata"]["name"] == serving]
    ordered = tuple(sorted((_time(each["creationTimestamp"]), each["name"]) for each in ready))
    return History(name, ordered, next((at for at, (_, each) in enumerate(ordered) if each == serving), -1))


def _serving(service: Mapping[str, Any]) -> str:
    traffic: list[dict[str, Any]] = service.get("status", {}).get("traffic", [])
    shares = {each.get("revisionName", ""): each.get("percent", 0) for each in traffic}
    return max(shares, key=shares.__getitem__, default="")


def _pin(service: Mapping[str, Any]) -> Move | None:
    """Return a service's newest revision and the one that serves, if traffic is sent to another than the newest."""
    status = service.get("status", {})
    newest_ready = status.get("latestReadyRevisionName", "")
    older = [
        each["revisionName"]
        for each in status.get("traffic", ())
        if each.get("percent", 0) and not each.get("latestRevision") and each.get("revisionName", "") != newest_ready
    ]
    return Move(service["metadata"]["name"], newest_ready, older[0]) if older else None


def _ready(revision: Mapping[str, Any]) -> bool:
    conditions = revision.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
