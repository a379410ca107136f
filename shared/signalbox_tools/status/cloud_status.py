"""The status and the logs of a deployment, by `gcloud` and Firestore's REST interface."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import httpx

from signalbox.catalogue.parts import SWEEP
from signalbox.catalogue.reading import Catalogue
from signalbox.core.times import rfc3339
from signalbox.mailboxes.model.messages import HEADER_SINCE, MAILBOX
from signalbox.objects.machine.deadly_calls import is_call_given_up
from signalbox_tools import http_client
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run, run
from signalbox_tools.status.status_lines import OBJECTS_MAX, Objects, Outbox, Part, Queue, QueueNow, StuckFlows, Sweep

ERRORS_MAX = 10
TASKS_MAX = 1_000
OUTBOX_MAX = 300
FAILURES_MAX = 300
REST_SECONDS_MAX = 30
MINUTES = 60
FUNCTIONS_OF_A_FILTER = 50
"""A filter of Cloud Monitoring has 2,048 characters."""

REQUESTS = 'metric.type="run.googleapis.com/request_count" AND resource.type="cloud_run_revision"'
COUNTED = ("tasks", "concurrentDispatches", "executedLastMinute")
GROUPED_BY = ("resource.label.service_name", "metric.label.response_code_class")

Fetch = Callable[[str, str, Mapping[str, object]], Any]
"""Called with an address, a token and the body of a POST, empty for a GET; returns the JSON of the answer."""


def fetch(url: str, token: str, body: Mapping[str, object]) -> Any:
    """Call a Google API over verified TLS. Raises `HttpError`."""
    method = "POST" if body else "GET"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = json.dumps(body).encode() if body else None
    try:
        with http_client.client(REST_SECONDS_MAX) as http:
            answer = http.request(method, url, content=content, headers=headers)
    except httpx.HTTPError as error:
        raise http_client.HttpError(f"{method} {url}: {error}") from error
    if not answer.is_success:
        raise http_client.HttpError(f"{method} {url}: {answer.status_code} {answer.text}")
    return answer.json()


class CloudSource:
    """Reads a deployment as gcloud's user."""

    def __init__(self, target: Target, run: Run = run, fetch: Fetch = fetch) -> None:
        self._target = target
        self._run = run
        self._fetch = fetch

    def parts(self) -> Sequence[Part]:
        listed = self._json("functions", "list", "--v2", f"--regions={self._target.region}")
        states = {str(each["name"]).rpartition("/")[2]: str(each.get("state", "?")) for each in listed}
        named = sorted(self._names("functions"))
        return [Part(name, states.get(name, "not deployed").lower(), states.get(name) == "ACTIVE") for name in named]

    def queues(self) -> Sequence[Queue]:
        listed = self._json("tasks", "queues", "list", self._location)
        states = {str(each["name"]).rpartition("/")[2]: str(each.get("state", "?")) for each in listed}
        return [self._queue(name, states[name]) for name in sorted(self._target.own_queues(states))]

    def _queue(self, name: str, state: str) -> Queue:
        waiting = len(self._json("tasks", "list", f"--queue={name}", self._location, f"--limit={TASKS_MAX}"))
        return Queue(name, waiting, None, waiting == TASKS_MAX, state)

    def queues_now(self) -> Sequence[QueueNow]:
        """Return the queues with their statistics, in one request: Google estimates the number of tasks."""
        tasks = f"https://cloudtasks.googleapis.com/v2beta3/projects/{self._target.project}"
        url = f"{tasks}/locations/{self._target.region}/queues"
        listed = list(self._pages(url, [("readMask", "name,state,stats")], "queues"))
        found = {str(each["name"]).rpartition("/")[2]: each for each in listed}
        names = self._target.own_queues(found)
        return [_queue_now(names[each], found[each]) for each in sorted(names)]

    def set_queue(self, name: str, change: str) -> None:
        """Pause or resume a queue. Raises `CommandFailed`."""
        where = (self._location, f"--project={self._target.project}")
        self._gcloud("tasks", "queues", change, self._target.service(name), "--quiet", *where)

    def outbox(self) -> Outbox:
        created = [_time(each["createTime"]) for each in self._records("outbox", OUTBOX_MAX)]
        oldest = (datetime.now(UTC) - min(created)).total_seconds() if created else None
        return Outbox(len(created), oldest, len(created) == OUTBOX_MAX)

    def stuck_flows(self) -> StuckFlows:
        stuck = {"field": {"fieldPath": "state"}, "op": "EQUAL", "value": {"stringValue": "stuck"}}
        found = self._records("flows", OUTBOX_MAX, {"where": {"fieldFilter": stuck}})
        runs = ["/".join(str(each["name"]).rpartition("/")[2].split("~", 1)) for each in found]
        return StuckFlows(runs, len(found) == OUTBOX_MAX)

    def objects(self) -> Objects:
        cards = self._records("objects", OBJECTS_MAX)
        waiting = sum(self._waiting(str(each["name"])) for each in cards)
        latest = {"orderBy": [{"field": {"fieldPath": "failed_at"}, "direction": "DESCENDING"}]}
        failed = [plain(each["fields"]) for each in self._records("failures", FAILURES_MAX, latest)]
        given_up = sum(map(is_call_given_up, failed))
        return Objects(len(cards), waiting, given_up, len(cards) == OBJECTS_MAX)

    def _records(self, collection: str, limit: int, more: Mapping[str, object] = MappingProxyType({})) -> list[Any]:
        query = {"from": [{"collectionId": collection}], "limit": limit, **more}
        answered = self._fetch(f"{self._documents}:runQuery", self._token, {"structuredQuery": query})
        return [each["document"] for each in answered if "document" in each]

    def _waiting(self, name: str) -> int:
        """Return the number of calls that wait at the object whose listing has this name."""
        card = quote(name.partition("/documents/")[2], safe="/~")
        header = {"timestampValue": rfc3339(HEADER_SINCE)}
        waits = {"field": {"fieldPath": "since"}, "op": "GREATER_THAN", "value": header}
        query = {"from": [{"collectionId": MAILBOX}], "where": {"fieldFilter": waits}}
        body = {"structuredAggregationQuery": {"structuredQuery": query, "aggregations": [{"alias": "n", "count": {}}]}}
        [counted] = self._fetch(f"{self._documents}/{card}:runAggregationQuery", self._token, body)
        return int(counted["result"]["aggregateFields"]["n"]["integerValue"])

    @property
    def _documents(self) -> str:
        target = self._target
        return f"https://firestore.googleapis.com/v1/projects/{target.project}/databases/{target.database}/documents"

    @cached_property
    def _token(self) -> str:
        return self._gcloud("auth", "print-access-token").strip()

    def minutes(self) -> Mapping[str, Any]:
        """Return the numbers of requests and of 5xx answers of each function in each minute of the last hour.

        Cloud Monitoring has them two minutes later. `until` is the end of the last minute, in seconds since 1970.
        """
        until = datetime.now(UTC).replace(second=0, microsecond=0)
        named = {self._target.service(name): name for name in self._catalogue.functions}
        counted: dict[str, dict[str, list[int]]] = {}
        services = sorted(named)
        for at in range(0, len(services), FUNCTIONS_OF_A_FILTER):
            self._count_minutes(services[at : at + FUNCTIONS_OF_A_FILTER], named, until, counted)
        by_name = [{"function": name, **counted[name]} for name in sorted(counted)]
        return {"until": round(until.timestamp()), "functions": by_name}

    def _count_minutes(
        self,
        services: Sequence[str],
        named: Mapping[str, str],
        until: datetime,
        counted: dict[str, dict[str, list[int]]],
    ) -> None:
        """Add the counts of some services, whose functions `named` has."""
        listed = ",".join(f'"{service}"' for service in services)
        asked = [
            ("filter", f"{REQUESTS} AND resource.label.service_name=one_of({listed})"),
            ("interval.startTime", rfc3339(until - timedelta(minutes=MINUTES))),
            ("interval.endTime", rfc3339(until)),
            ("aggregation.alignmentPeriod", "60s"),
            ("aggregation.perSeriesAligner", "ALIGN_DELTA"),
            ("aggregation.crossSeriesReducer", "REDUCE_SUM"),
            *(("aggregation.groupByFields", label) for label in GROUPED_BY),
        ]
        monitoring = f"https://monitoring.googleapis.com/v3/projects/{self._target.project}/timeSeries"
        for series in self._pages(monitoring, asked, "timeSeries"):
            counts = counted.setdefault(
                named[series["resource"]["labels"]["service_name"]],
                {"requests": [0] * MINUTES, "failed": [0] * MINUTES},
            )
            kinds = (
                ("requests", "failed") if series["metric"]["labels"]["response_code_class"] == "5xx" else ("requests",)
            )
            for point in series["points"]:
                ago = round((until - _time(point["interval"]["endTime"])).total_seconds() / 60)
                if 0 <= ago < MINUTES:
                    for kind in kinds:
                        counts[kind][MINUTES - 1 - ago] += int(point["value"]["int64Value"])

    def _pages(self, url: str, asked: Sequence[tuple[str, str]], items: str) -> Iterator[Mapping[str, Any]]:
        token = ""
        while True:
            page = self._fetch(str(httpx.URL(url, params=[*asked, ("pageToken", token)])), self._token, {})
            yield from page.get(items, ())
            if not (token := page.get("nextPageToken", "")):
                return

    def last_sweep(self) -> Sweep | None:
        if SWEEP not in self._catalogue.functions:
            return None
        job = self._json("scheduler", "jobs", "describe", self._target.service("sweep"), self._location)
        if not (attempted := job.get("lastAttemptTime")):
            return Sweep(None)
        ago = (datetime.now(UTC) - _time(attempted)).total_seconds()
        return Sweep(ago, not job.get("status", {}).get("code"))

    def paused_schedules(self) -> Collection[str]:
        """Return the names of the schedules of the catalogue that are paused. Raises `CommandFailed`."""
        scheduler = f"https://cloudscheduler.googleapis.com/v1/projects/{self._target.project}"
        listed = self._pages(f"{scheduler}/locations/{self._target.region}/jobs", [], "jobs")
        paused = {str(each["name"]).rpartition("/")[2] for each in listed if each.get("state") == "PAUSED"}
        return [name for name in self._catalogue.schedules if self._target.service(name) in paused]

    def set_schedule(self, name: str, change: str) -> None:
        """Pause or resume a schedule. Raises `CommandFailed`."""
        where = (self._location, f"--project={self._target.project}", "--quiet")
        self._gcloud("scheduler", "jobs", change, self._target.service(name), *where)

    def errors(self) -> Sequence[Mapping[str, Any]]:
        return self._errors

    def log(self, condition: str, count: int) -> list[dict[str, Any]]:
        """Return the newest log entries of the functions that meet a condition, the newest last."""
        names = " OR ".join(f'"{name}"' for name in sorted(self._names("functions")))
        ours = ('resource.type="cloud_run_revision"', f"resource.labels.service_name=({names})")
        filters = " AND ".join(filter(None, (*ours, condition)))
        found = self._json("logging", "read", filters, f"--limit={count}", "--freshness=1d")
        return [entry_of(each) for each in reversed(found)]

    @property
    def _location(self) -> str:
        return f"--location={self._target.region}"

    def _names(self, section: str) -> frozenset[str]:
        """Return the cloud names of a section's entries.

        They exclude the entries of other environments in the same project.
        """
        return frozenset(map(self._target.service, getattr(self._catalogue, section)))

    @cached_property
    def _catalogue(self) -> Catalogue:
        return self._target.catalogue

    @cached_property
    def _errors(self) -> list[dict[str, Any]]:
        return self.log("severity>=ERROR", ERRORS_MAX)

    def _json(self, *arguments: str) -> Any:
        return json.loads(self._gcloud(*arguments, f"--project={self._target.project}", "--format=json") or "[]")

    def _gcloud(self, *arguments: str) -> str:
        outcome = self._run(("gcloud", *arguments), folder=self._target.root)
        if not outcome.ok:
            raise CommandFailed((outcome.error or outcome.text).strip() or f"gcloud {' '.join(arguments)} failed")
        return outcome.text


class CloudQueues:
    """The queues of a deployment, for the console. `source` returns a source with a token that is valid now."""

    def __init__(self, source: Callable[[], CloudSource]) -> None:
        self._source = source

    def now(self) -> Sequence[QueueNow]:
        return self._source().queues_now()

    def pause(self, name: str) -> None:
        self._source().set_queue(name, "pause")

    def resume(self, name: str) -> None:
        self._source().set_queue(name, "resume")


class CloudSchedules:
    """The schedules of a deployment, for the console. `source` returns a source with a token that is valid now."""

    def __init__(self, source: Callable[[], CloudSource]) -> None:
        self._source = source

    def paused(self) -> Collection[str]:
        return self._source().paused_schedules()

    def pause(self, name: str) -> None:
        self._source().set_schedule(name, "pause")

    def resume(self, name: str) -> None:
        self._source().set_schedule(name, "resume")


def _queue_now(name: str, queue: Mapping[str, Any]) -> QueueNow:
    """Return a queue from the REST interface, where an int64 is a text, and 0 may be absent."""
    stats = queue.get("stats", {})
    tasks, running, ended = (int(stats.get(f"{each}Count", 0)) for each in COUNTED)
    due_at = stats.get("oldestEstimatedArrivalTime") if tasks else None
    oldest = (datetime.now(UTC) - _time(due_at)).total_seconds() if due_at else None
    return QueueNow(name, tasks, running, oldest, ended, str(queue.get("state", "RUNNING")).lower())


def entry_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of Cloud Logging as the functions wrote it."""
    text = {"message": "printed", "text": str(entry.get("textPayload", "")).rstrip()}
    service = entry.get("resource", {}).get("labels", {}).get("service_name", "")
    named = {"function": service, "severity": entry.get("severity", "DEFAULT"), "time": entry.get("timestamp", "")}
    return {**named, **(entry.get("jsonPayload") or text)}


def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts and maps among the fields of a record as Firestore's REST interface writes them."""
    maps = {name: plain(value["mapValue"]["fields"]) for name, value in fields.items() if "mapValue" in value}
    return maps | {name: value["stringValue"] for name, value in fields.items() if "stringValue" in value}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
