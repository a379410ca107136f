"""The console's files, and data that the page needs next to the HTTP API: the catalogue and the state of queues.

    GET {base}console           the page
    GET {base}console/NAME      its stylesheet, icon and modules
    GET {base}console/about     the name of the deployment, the pause between reads, classes of objects, flows
    GET {base}console/map       the functions, queues, triggers and schedules of the catalogue
    GET {base}console/queues    the tasks of each queue now, and how many were delivered in the last minute
    GET {base}console/status    the lines of `signalbox status`, which gcloud reads
    GET {base}console/minutes   the requests of each function in each minute of the last hour, and the failed ones
    GET {base}console/traces    the latest traces of the local stack, or those with ?search=; /ID: the spans of one
    GET {base}console/schedules the names of the schedules that are paused
    POST {base}console/queues/NAME/pause, /resume
    POST {base}console/schedules/NAME/pause, /resume

The page reads everything else by the HTTP API as any client does, so it has no further rights. It loads nothing from
elsewhere, and its policy permits nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from werkzeug.wrappers import Request, Response

from signalbox.adapters.http.json_bodies import render
from signalbox.catalogue.reading import Catalogue
from signalbox.core.kit_names import queue_of
from signalbox_tools.console.actions import ACT_ON_RUNS, ACTIONS, OF_QUEUES, OF_SCHEDULES
from signalbox_tools.console.security_headers import BARE_HEADERS, HEADERS
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.status.status_lines import Line, QueueNow

FOLDER = Path(__file__).with_name("page")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Queues(Protocol):
    """Reads the queues of a catalogue, and pauses and resumes their deliveries."""

    def now(self) -> Sequence[QueueNow]:
        """Return the queues by name. Raises `OSError` or `CommandFailed`."""

    def pause(self, name: str) -> None:
        """Deliver no further task of a queue. Raises `OSError` or `CommandFailed`."""

    def resume(self, name: str) -> None:
        """Deliver the tasks of a queue again. Raises `OSError` or `CommandFailed`."""


class Schedules(Protocol):
    """Pauses and resumes schedules of a catalogue."""

    def paused(self) -> Collection[str]:
        """Return the names of the schedules that are paused. Raises `OSError` or `CommandFailed`."""

    def pause(self, name: str) -> None:
        """Let a schedule call nothing. Raises `OSError` or `CommandFailed`."""

    def resume(self, name: str) -> None:
        """Let a schedule call again. Raises `OSError` or `CommandFailed`."""


class Traces(Protocol):
    """A source of spans of requests."""

    def recent(self, search: str = "") -> Sequence[Mapping[str, Any]]:
        """Return summaries of the latest traces, the newest first; with `search`, those that have this text."""

    def trace(self, trace: str) -> Mapping[str, Any] | None:
        """Return a trace with its spans, or None."""


@dataclass(frozen=True, slots=True)
class Console:
    """A console of one catalogue.

    `where` names the stack or deployment that it shows, and `status` returns the lines of `signalbox status`. If it
    `acts`, the page has the buttons of `ACTIONS`. `minutes` returns the requests of the last hour. The console also
    shows `traces` and `queues`, and pauses `schedules`, if they are given.
    """

    catalogue: Catalogue
    where: str
    status: Callable[[], Sequence[Line]] | None = None
    refresh_seconds: int = 2
    project: str = ""
    acts: bool = True
    minutes: Callable[[], Mapping[str, Any]] | None = None
    traces: "Traces | None" = None
    queues: Queues | None = None
    schedules: Schedules | None = None

    def answer(self, request: Request) -> Response | None:
        """Return the answer to a GET of the console's addresses, or None for any other address."""
        match request.path.split("/")[1:]:
            case ["console"] | ["console", ""]:
                return _file("index.html")
            case ["console", "about"]:
                return _json(self._about())
            case ["console", "map"]:
                return _json(map_of(self.catalogue))
            case ["console", "queues"] if self.queues:
                return _json({"queues": [asdict(each) for each in self.queues.now()]})
            case ["console", "schedules"] if self.schedules:
                return _json({"paused": sorted(self.schedules.paused())})
            case ["console", "status"] if self.status:
                return _json({"lines": [_line(each) for each in self.status()]})
            case ["console", "minutes"] if self.minutes:
                return _json(self.minutes())
            case ["console", "traces"] if self.traces:
                return _json({"traces": self.traces.recent(request.args.get("search", ""))})
            case ["console", "traces", id_] if self.traces and (found := self.traces.trace(id_)):
                return _json(found)
            case ["console", name]:
                return _file(name)
        return None

    def act(self, path: Sequence[str]) -> Response | None:
        """Pause or resume the queue or the schedule that the path of a POST names. Return None for other addresses."""
        match path:
            case ["console", "queues", name, ("pause" | "resume") as change] if self.queues:
                is_known = queue_of(name) in self.catalogue.queues  # perhaps a shard that it had when it had more
                return _changed(self.queues, change, "queue", name, is_known=is_known)
            case ["console", "schedules", name, ("pause" | "resume") as change] if self.schedules:
                is_known = name in self.catalogue.schedules
                return _changed(self.schedules, change, "schedule", name, is_known=is_known)
        return None

    def _about(self) -> Mapping[str, Any]:
        return {
            "where": self.where,
            "project": self.project,
            "refresh_seconds": self.refresh_seconds,
            "has_status": self.status is not None,
            "has_queues": self.queues is not None,
            "has_schedules": self.schedules is not None,
            "has_minutes": self.minutes is not None,
            "has_traces": self.traces is not None,
            "called": sorted(each.segment for each in self._for_people),
            "actions": {name: ACTIONS[name].shown() for name in self._actions},
            "objects": self._listed("class", ((each.segment, each.objects) for each in self._for_people)),
            "flows": self._listed("flow", ((each.segment, each.flows) for each in self._for_people)),
        }

    @property
    def _actions(self) -> Iterable[str]:
        missing = {
            *(() if self.queues else OF_QUEUES),
            *(() if self.schedules else OF_SCHEDULES),
            *(() if self._shows_batches else (ACT_ON_RUNS,)),
        }
        return (name for name in ACTIONS if self.acts and name not in missing)

    @property
    def _shows_batches(self) -> bool:
        """Whether the page can follow a batch. Otherwise it acts on each run that matches."""
        return any(each.name == "batches" for each in self._for_people)

    @property
    def _for_people(self) -> Iterable[Any]:
        return (each for each in self.catalogue.functions.values() if "people" in each.invoked_by)

    @staticmethod
    def _listed(kind: str, named: Iterable[tuple[str, Sequence[str]]]) -> list[dict[str, str]]:
        return [{"function": segment, kind: name} for segment, names in named for name in names]


def _changed(of: Queues | Schedules, change: str, kind: str, name: str, *, is_known: bool) -> Response:
    if not is_known:
        return problem(404, "Not found", f"The catalogue has no {kind} {name!r}.")
    (of.pause if change == "pause" else of.resume)(name)
    return Response(status=204, headers=HEADERS)


def map_of(catalogue: Catalogue) -> Mapping[str, Any]:
    """Return the callers of each function of a catalogue: users' functions first, then those of the kit, by name."""
    functions = sorted(catalogue.functions.values(), key=lambda each: (catalogue.is_of_the_kit(each), each.name))
    return {
        "functions": [
            {
                "name": each.name,
                "segment": each.segment,
                "own": not catalogue.is_of_the_kit(each),
                "open": each.public or bool(each.auth),
                "enqueues": catalogue.shards_of(each.enqueues),
                **{name: list(getattr(each, name)) for name in ("invoked_by", "tasks", "objects", "flows")},
            }
            for each in functions
        ],
        "queues": [
            {
                "name": name,
                "dispatches_per_second": queue.dispatches_per_second,
                "calls": sorted(called for called, queues in catalogue.calling_queues.items() if queue.name in queues),
            }
            for name, queue in catalogue.shards.items()
        ],
        "triggers": [
            {"name": each.name, "function": each.function, "document": each.document}
            for each in catalogue.triggers.values()
        ],
        "schedules": [
            {"name": each.name, "function": each.function, "cron": each.cron, "task": each.task}
            for each in catalogue.schedules.values()
        ],
    }


def is_file(request: Request) -> bool:
    """Return whether an address is that of the page or of one of its files, which are the same for all users."""
    match request.path.split("/")[1:]:
        case ["console"] | ["console", ""]:
            return True
        case ["console", name]:
            return name in _files()
    return False


def own_answer(answer: Callable[[], Response | None]) -> Response | None:
    """Return the answer of the console, or a problem if gcloud, an API of Google or the local stack refuses."""
    try:
        return answer()
    except (CommandFailed, OSError) as error:
        return problem(502, "No answer", str(error))


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem (RFC 9457) of the server of the console."""
    body = render({"type": "about:blank", "title": title, "status": status, "detail": detail})
    return Response(body, status, {**BARE_HEADERS, **(headers or {})}, content_type="application/problem+json")


def _line(line: Line) -> dict[str, object]:
    return {"name": line.name, "text": line.text, "well": line.well}


def _json(value: Mapping[str, Any]) -> Response:
    return Response(render(value), content_type="application/json", headers=HEADERS)


def _file(name: str) -> Response | None:
    path = _files().get(name)
    return None if path is None else Response(path.read_bytes(), content_type=TYPES[path.suffix], headers=HEADERS)


@cache
def _files() -> Mapping[str, Path]:
    return {path.name: path for path in FOLDER.iterdir() if path.suffix in TYPES}
