"""Payloads in a bucket of Cloud Storage, by its JSON API and Python's own HTTP client, which need no package.

An object is created only if there is none of its name, and then never changes. The path of its owner's records is in
its metadata. Functions can create and read objects; only the sweeper's account can delete them.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from signalbox.core.ports import StoredPayload
from signalbox.core.problems import Unavailable

METADATA_HOST = "metadata.google.internal"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105  an address
STORAGE_HOST = "storage.googleapis.com"

REQUEST_SECONDS_MAX = 60.0
TOKEN_SECONDS_MAX = 5.0
TOKEN_MARGIN_SECONDS = 60.0
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.2
DELETES_AT_ONCE = 16
OWNER = "owner"

JSON = "application/json"
FINE = frozenset({200, 204})
MISSING, EXISTS = 404, 412
PASSING = frozenset({408, 429, 500, 502, 503, 504})

Answer = tuple[int, bytes]


class BucketPayloads:
    """A `PayloadStore` in a bucket. `emulator` is the address of an emulator, which takes no token. Thread-safe."""

    def __init__(self, bucket: str, emulator: str = "", sleep: Callable[[float], None] = time.sleep) -> None:
        self._bucket, self._emulator, self._sleep = quote(bucket, safe=""), emulator, sleep
        self._connections = threading.local()
        self._lock = threading.Lock()
        self._token, self._token_until = "", 0.0

    def create(self, key: str, content: bytes, owner: str) -> None:
        boundary = uuid4().hex
        described = json.dumps({"name": key, "contentType": JSON, "metadata": {OWNER: owner}}).encode()
        parts = [f"--{boundary}\r\nContent-Type: {JSON}\r\n\r\n".encode() + part for part in (described, content)]
        body = b"\r\n".join((*parts, f"--{boundary}--".encode()))
        query = urlencode({"uploadType": "multipart", "ifGenerationMatch": 0, "fields": "name"})
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        self._request("POST", f"/upload/storage/v1/b/{self._bucket}/o?{query}", body, headers, accepts={EXISTS})

    def read(self, key: str) -> bytes | None:
        status, content = self._request("GET", f"{self._object(key)}?alt=media", accepts={MISSING})
        return None if status == MISSING else content

    def copy(self, source: str, target: str, owner: str) -> bool:
        path, token = f"{self._object(source)}/rewriteTo{self._object(target).removeprefix('/storage/v1')}", ""
        body = json.dumps({"contentType": JSON, "metadata": {OWNER: owner}}).encode()
        while True:  # one request, unless the object is large and the bucket has several places
            query = urlencode({"ifGenerationMatch": 0, **({"rewriteToken": token} if token else {})})
            headers = {"Content-Type": JSON}
            status, answer = self._request("POST", f"{path}?{query}", body, headers, accepts={MISSING, EXISTS})
            if status in (MISSING, EXISTS):
                return status == EXISTS
            rewritten = json.loads(answer)
            if rewritten["done"]:
                return True
            token = rewritten["rewriteToken"]

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        fields = "items(name,metadata,timeCreated)"
        query = urlencode({"prefix": prefix, "startOffset": after, "maxResults": limit + 1, "fields": fields})
        _, answer = self._request("GET", f"/storage/v1/b/{self._bucket}/o?{query}")
        found = [_listed(item) for item in json.loads(answer).get("items", ())]
        return [each for each in found if each.key > after][:limit]

    def delete(self, keys: Sequence[str]) -> None:
        with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
            for _ in pool.map(lambda key: self._request("DELETE", self._object(key), accepts={MISSING}), keys):
                pass

    # --- requests ---

    def _object(self, key: str) -> str:
        return f"/storage/v1/b/{self._bucket}/o/{quote(key, safe='')}"

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        accepts: set[int] | None = None,
    ) -> Answer:
        """Send a request, again after a passing failure. Raises `Unavailable` for any status but success or `accepts`.

        A repeat is harmless: an object is created once, and its name determines its content.
        """
        failure = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._sleep(PAUSE_SECONDS * 2**attempt)
            try:
                status, answer = self._sent(method, path, body, {**(headers or {}), **self._authorization()})
            except (OSError, http.client.HTTPException) as error:
                self._connections.open = None
                failure = repr(error)
                continue
            if status in FINE or status in (accepts or ()):
                return status, answer
            failure = f"{status} {answer[:300].decode(errors='replace')}"
            if status not in PASSING:
                break
        raise Unavailable(f"{method} of a payload in {self._bucket} failed: {failure}")

    def _sent(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = getattr(self._connections, "open", None) or self._connect()
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _connect(self) -> Any:
        if self._emulator:
            at = urlsplit(self._emulator if "//" in self._emulator else f"//{self._emulator}")
            self._connections.open = http.client.HTTPConnection(at.netloc, timeout=REQUEST_SECONDS_MAX)
        else:
            self._connections.open = http.client.HTTPSConnection(STORAGE_HOST, timeout=REQUEST_SECONDS_MAX)
        return self._connections.open

    def _authorization(self) -> dict[str, str]:
        """Return the header with the token of this instance's account, which is kept until it expires."""
        if self._emulator:
            return {}
        with self._lock:
            if time.monotonic() >= self._token_until:
                metadata = http.client.HTTPConnection(METADATA_HOST, timeout=TOKEN_SECONDS_MAX)
                metadata.request("GET", TOKEN_PATH, headers={"Metadata-Flavor": "Google"})
                token = json.loads(metadata.getresponse().read())
                metadata.close()
                self._token = token["access_token"]
                self._token_until = time.monotonic() + token["expires_in"] - TOKEN_MARGIN_SECONDS
            return {"Authorization": f"Bearer {self._token}"}


def _listed(item: Mapping[str, Any]) -> StoredPayload:
    owner = item.get("metadata", {}).get(OWNER, "")
    return StoredPayload(item["name"], owner, datetime.fromisoformat(item["timeCreated"]))
