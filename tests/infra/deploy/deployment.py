"""A deployment in memory, on a clock of its own: what the smoke test calls, with the delays of a real one.

Its flags say what works; `known_at` is when it knows its callers, `fires_at` when its trigger begins to see changes.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from signalbox_infra.deploy import smoke

Body = dict[str, Any]


@dataclass
class Deployment:
    """Answers as the functions do."""

    now: Callable[[], float] = lambda: 0.0
    follows: bool = True
    private: bool = True
    excludes: bool = True
    known_at: float = 0.0
    fires_at: float = 0.0
    kept: dict[str, Body] = field(default_factory=dict)
    put: list[str] = field(default_factory=list)
    seen: dict[str, Body] = field(default_factory=dict)

    def from_now_on(self) -> "Deployment":
        """Count the delays from now."""
        self.known_at += self.now()
        self.fires_at += self.now()
        return self

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.now() < self.known_at:
            return httpx.Response(403, text="<html>Forbidden</html>")
        if self.private and "Authorization" not in request.headers:
            return httpx.Response(403)
        path = request.url.path.lstrip("/")
        kind, _, rest = path.partition("/")
        answer: Callable[[str, Any], Any] = getattr(self, f"{request.method}_{kind}".replace("-", "_").lower())
        answered = answer(rest, json.loads(request.content or b"null"))
        return httpx.Response(404) if answered is None else httpx.Response(200, json=answered)

    def put_documents(self, key: str, body: Body) -> Body:
        if self.follows and self.now() >= self.fires_at:
            self.seen[key] = body
        return self._put(f"documents/{key}", body)

    def patch_documents(self, key: str, body: Body) -> Body:
        return self.put_documents(key, {**self.kept[f"documents/{key}"], **body})

    def put_semaphores(self, name: str, body: Body) -> Body:
        return self._put(f"semaphores/{name}", body)

    def _put(self, path: str, body: Body) -> Body:
        self.put.append(path)
        self.kept[path] = body
        return body

    def delete_documents(self, key: str, _: Any) -> Body | None:
        return self.kept.pop(f"documents/{key}", None)

    def delete_semaphores(self, name: str, _: Any) -> Body | None:
        return self.kept.pop(f"semaphores/{name}", None)

    def get_documents(self, key: str, _: Any) -> Body | None:
        if not key:
            return {"documents": [each for path, each in self.kept.items() if re.match("documents/.*left", path)]}
        found = self.kept.get(f"documents/{key}")
        if found is not None and "source" in found:
            source = self.seen.get(found["source"]["key"], {"name": "before"})
            return {**found, "source": {**found["source"], "name": source["name"]}}
        return found

    def post_semaphore_wait(self, _: str, body: Body) -> Body:
        return {"acquired": body["id"] == "first" or not self.excludes, "lease": {"id": "a lease"}}

    def post_semaphore_signal(self, _: str, __: Any) -> Body:
        return {"released": True}

    def post_batches(self, *_: Any) -> Body:
        return {}

    def post_batch_complete(self, *_: Any) -> Body:
        return {}

    def get_batches(self, *_: Any) -> Body:
        return {"state": "completed", "size": smoke.UNITS, "succeeded": smoke.UNITS, "failed": 0}
