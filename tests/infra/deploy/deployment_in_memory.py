"""A deployment in memory with a simulated clock: the functions that the smoke test calls, with realistic delays.

Its flags say what works. From `known_at` it accepts its callers; from `fires_at` its trigger receives changes. If
`federated` names an account, its calls need identity tokens that IAM's credentials API has generated for it, since
gcloud has none for an account that signed in by Workload Identity Federation.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from signalbox_tools.deploy import smoke
from tests.infra.deploy.gcloud import TOKEN

Body = dict[str, Any]
GENERATED = "generated for "


@dataclass
class Deployment:
    """Answers as the functions do."""

    now: Callable[[], float] = lambda: 0.0
    follows: bool = True
    private: bool = True
    excludes: bool = True
    known_at: float = 0.0
    fires_at: float = 0.0
    federated: str = ""
    kept: dict[str, Body] = field(default_factory=dict)
    put: list[str] = field(default_factory=list)
    seen: dict[str, Body] = field(default_factory=dict)

    def from_now_on(self) -> "Deployment":
        """Count the delays from now."""
        self.known_at += self.now()
        self.fires_at += self.now()
        return self

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "iamcredentials.googleapis.com":
            return self._generated(request)
        function = f"{request.url.scheme}://{request.url.host}/{request.url.path.split('/')[1]}"
        signed = request.headers.get("Authorization") == f"Bearer {GENERATED}{function}"
        if self.federated and not signed and "Authorization" in request.headers:
            return httpx.Response(401, text="<html>Unauthorized</html>")
        if self.now() < self.known_at:
            return httpx.Response(403, text="<html>Forbidden</html>")
        if self.private and "Authorization" not in request.headers:
            return httpx.Response(403)
        path = request.url.path.lstrip("/")
        kind, _, rest = path.partition("/")
        answer: Callable[[str, Any], Any] = getattr(self, f"{request.method}_{kind}".replace("-", "_").lower())
        answered = answer(rest, json.loads(request.content or b"null"))
        return httpx.Response(404) if answered is None else httpx.Response(200, json=answered)

    def _generated(self, request: httpx.Request) -> httpx.Response:
        """Answer as `generateIdToken` does."""
        path = f"/v1/projects/-/serviceAccounts/{self.federated}:generateIdToken"
        if (request.method, request.url.path) != ("POST", path):
            return httpx.Response(404, json={"error": {"code": 404, "message": "Not found; Gaia id not found"}})
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return httpx.Response(401, json={"error": {"code": 401, "status": "UNAUTHENTICATED"}})
        body = json.loads(request.content)
        assert body["includeEmail"] is True, "Cloud Run refuses a token without the account's address"
        return httpx.Response(200, json={"token": GENERATED + body["audience"]})

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
