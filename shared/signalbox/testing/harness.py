"""The harness for tests of functions: all of Signalbox in this process, on the in-memory store.

def test_a_page_is_printed_once(harness: Harness) -> None:
    semaphore("printer").ensure(permits=1)
    assert harness.post("printers/7", json={"copies": 2}).status == 202
    harness.run(Faults(duplicate=1))
    assert documents.get("page-7")["printed"] == 1
"""

import json as json_codec
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from werkzeug.datastructures import Headers

from signalbox import Function
from signalbox.adapters import settings
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.testing.simulated_cloud import Platform


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response that a caller gets: `status`, `headers` and the body."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed body, or None if it is empty."""
        return json_codec.loads(self.body) if self.body else None


class Harness(Platform):
    """A `Platform` that tests enter with ``with``, which binds its store to the names of `signalbox`.

    Inside, HTTP calls reach functions as a caller's do, and `semaphore`, `batch` and `documents` of `signalbox` use the
    same store. The functions are those of the catalogue, the kit's and yours; `add` and `load` add others.
    """

    _entered: ExitStack | None = None

    def __enter__(self) -> Self:
        self._entered = ExitStack()
        self._entered.enter_context(self.bound())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._entered:
            self._entered.close()
            self._entered = None

    def add(
        self,
        function: Function,
        *,
        auth: Literal["", "firebase"] = "",
        public: bool = False,
        exposes: Collection[str] = (),
    ) -> None:
        """Add a function made in this test, with its routes, tasks and the trigger of its `document_written`.

        `auth`, `public` and `exposes` are as in an entry of the catalogue. With ``auth="firebase"`` the function
        accepts the tokens of `user_token`.
        """
        self.functions.add(function, auth, exposes if auth or public else None)
        self._apply_settings()

    def load(
        self, folder: Path, name: str | None = None, signature_type: Literal["http", "cloudevent"] = "http"
    ) -> None:
        """Add the function in a folder's ``main.py``; it is named after the folder unless `name` is passed."""
        self.functions.load(folder, name or folder.resolve().name, signature_type)
        self._apply_settings()

    def _apply_settings(self) -> None:
        """Register the functions in this process now, if the harness has been entered.

        Before that, the process is not the harness's.
        """
        if self._entered:
            settings.bind(self.functions.settings())

    def get(self, path: str, **request: Any) -> HttpResponse:
        """GET `path` below the base URL; see `request`."""
        return self.request("GET", path, **request)

    def post(self, path: str, **request: Any) -> HttpResponse:
        """POST to `path` below the base URL; see `request`."""
        return self.request("POST", path, **request)

    def put(self, path: str, **request: Any) -> HttpResponse:
        """PUT to `path` below the base URL; see `request`."""
        return self.request("PUT", path, **request)

    def patch(self, path: str, **request: Any) -> HttpResponse:
        """PATCH `path` below the base URL; see `request`."""
        return self.request("PATCH", path, **request)

    def delete(self, path: str, **request: Any) -> HttpResponse:
        """DELETE `path` below the base URL; see `request`."""
        return self.request("DELETE", path, **request)

    def request(self, method: str, path: str, **request: Any) -> HttpResponse:
        """Call a function as people do; ``printers/7?copies=2`` is the function `printers` at ``/7``.

        `json`, `data`, `headers` and `query_string` are as in werkzeug's test client. Raises `UnknownFunction`.
        """
        url, question_mark, query = path.partition("?")
        segment, _, rest = url.lstrip("/").partition("/")
        answer = self.call(segment.replace("-", "_"), f"/{rest}{question_mark}{query}", method=method, **request)
        return HttpResponse(answer.status_code, answer.headers, answer.data)
