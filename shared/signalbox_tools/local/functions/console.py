"""The console of the local stack: its pages, its queues and its spans, and a line of the log for each action."""

import getpass
import io
import json
import os
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from google.api_core.exceptions import GoogleAPICallError
from werkzeug.wrappers import Request

from signalbox.adapters import runtime
from signalbox.adapters.settings import settings
from signalbox.catalogue.reading import Catalogue
from signalbox_tools import http_client
from signalbox_tools.console.actions import REASON_HEADER, action_of, logged_body
from signalbox_tools.console.routes import Console
from signalbox_tools.local import queue_pauses
from signalbox_tools.local.functions import spans
from signalbox_tools.local.scheduler import PAUSED_FILE, paused_in
from signalbox_tools.status.status_lines import QueueNow

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REASON_KEY = f"HTTP_{REASON_HEADER.upper().replace('-', '_')}"
RESPONSE_SECONDS_MAX = 5.0


def local_console(catalogue: Catalogue) -> Console:
    """Return the console of the functions that this process serves."""
    file = os.environ.get(spans.VARIABLE)
    reader = spans.SpanReader(Path(file)) if file else None
    minutes = reader.minutes if reader else None
    return Console(
        catalogue, "This machine", minutes=minutes, traces=reader, queues=LocalQueues(), schedules=LocalSchedules()
    )


class LocalQueues:
    """The queues of the stack. There are none if the functions run without a stack, as in a test."""

    def now(self) -> Sequence[QueueNow]:
        chosen = settings()
        if not chosen.tasks_emulator:
            return []
        place = urlsplit(chosen.keys_url)
        url = f"{place.scheme}://{place.netloc}/queues"
        listed = json.loads(http_client.send("GET", url, timeout_seconds=RESPONSE_SECONDS_MAX))
        return [QueueNow(name, **counts) for name, counts in sorted(listed.items())]

    def pause(self, name: str) -> None:
        self._change("pause_queue", name)

    def resume(self, name: str) -> None:
        self._change("resume_queue", name)

    def _change(self, method: str, name: str) -> None:
        chosen = settings()
        try:
            getattr(queue_pauses.queues_client(chosen), method)(name=queue_pauses.queue_path(chosen, name))
        except GoogleAPICallError as error:
            raise http_client.HttpError(str(error)) from error


class LocalSchedules:
    """The schedules of the stack, each of which a file in its folder pauses. There are none without a stack."""

    def paused(self) -> Collection[str]:
        return paused_in(self._folder) if self._folder else []

    def pause(self, name: str) -> None:
        self._file(name).touch()

    def resume(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        if self._folder is None:
            raise http_client.HttpError("The functions run without a stack, which has the schedules.")
        return self._folder / PAUSED_FILE.format(name)

    @property
    def _folder(self) -> Path | None:
        file = os.environ.get(spans.VARIABLE)
        return Path(file).parent if file else None


def actions_logged(app: "WSGIApplication") -> "WSGIApplication":
    """Log each action of the console: its user, its reason and the status of the answer.

    The caller is the user of this machine who runs the stack: there is no sign-in here.
    """

    def logged(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if REASON_KEY not in environ:
            return app(environ, start_response)
        path = str(environ.get("RAW_URI") or environ["PATH_INFO"]).partition("?")[0]
        method = environ["REQUEST_METHOD"]
        name = action_of(method, [unquote(each) for each in path.split("/")[1:]])
        asked = logged_body(name, partial(_body, environ))

        def noting(status: str, headers: Any, error: Any = None) -> Any:
            done = {"action": name, "account": _user(), "reason": unquote(environ[REASON_KEY]), **asked}
            runtime.log().info("console action", **done, call=f"{method} {path}", status=int(status[:3]))
            return start_response(status, headers, error) if error else start_response(status, headers)

        return app(environ, noting if name else start_response)

    return logged


def _body(environ: "WSGIEnvironment") -> bytes:
    """Return the body of a request, which the function reads again."""
    body = Request(environ).get_data()
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no entry for its user
        return str(os.getuid())
