"""The smoke test names each step that fails, and deletes everything it created."""

from typing import Any, Self

import httpx
import pytest

from infra.deploy import deployment_client, smoke, target
from infra.deploy.commands import CommandFailed
from infra.deploy.deployment_client import SmokeTestFailed, poll, tokens
from tests.infra.deploy.gcloud import ACCOUNT, PROJECT, REGION
from tests.infra.deploy.script import Script

DEV = target.read(PROJECT, "dev")
DESCRIBE = "gcloud scheduler jobs describe dev-sweep"


class Deployment:
    """A deployment in memory, as `DeploymentClient` sees it; its flags say what works."""

    def __init__(self, *, follows: bool = True, private: bool = True, excludes: bool = True) -> None:
        self.follows, self.private, self.excludes = follows, private, excludes
        self.kept: dict[str, dict[str, Any]] = {}
        self.put: list[str] = []

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def status(self, _: str, *, signed: bool = True) -> int:
        return 200 if signed or not self.private else 403

    def request(self, method: str, path: str, body: Any = None, expect: tuple[int, ...] = ()) -> Any:
        kind, _, rest = path.partition("/")
        answer = getattr(self, f"_{method}_{kind}".replace("-", "_").lower(), None)
        if answer:
            return answer(rest, body)
        if method == "PUT":
            self.put.append(path)
            self.kept[path] = {**body}
        elif method == "DELETE":
            self.kept.pop(path)
        elif path not in self.kept and 404 not in expect:
            raise SmokeTestFailed(f"{path}: 404")
        return self.kept.get(path)

    def _get_documents(self, key: str, _: Any) -> Any:
        found = self.kept.get(f"documents/{key}", {})
        source = self.kept.get(f"documents/{found.get('source', {}).get('key')}", {})
        return {**found, "source": source if self.follows else {"name": "before"}}

    def _post_semaphore_wait(self, _: str, body: Any) -> Any:
        return {"acquired": body["id"] == "first" or not self.excludes, "lease": {"id": "a lease"}}

    def _post_semaphore_signal(self, _: str, __: Any) -> Any:
        return {"released": True}

    def _post_batches(self, *_: Any) -> None:
        """Take a batch."""

    def _post_batch_complete(self, *_: Any) -> None:
        """Take a result."""

    def _get_batches(self, *_: Any) -> Any:
        return {"state": "completed", "size": smoke.UNITS, "succeeded": smoke.UNITS, "failed": 0}


def failures(monkeypatch: pytest.MonkeyPatch, deployment: Deployment, script: Script) -> list[str]:
    """Run the smoke test with short timeouts; return the steps that failed."""
    monkeypatch.setattr(smoke, "DeploymentClient", deployment)
    for timeout in ("REACHED_SECONDS", "FOLLOWED_SECONDS", "SCHEDULED_SECONDS"):
        monkeypatch.setattr(smoke, timeout, -1.0)
    said: list[str] = []
    passed = smoke.passes(smoke.Site(DEV, "http://x/", ACCOUNT, script), said.append)
    failed = [line for line in said if line.startswith("  FAILED")]
    assert passed == (not failed)
    return failed


@pytest.mark.parametrize(
    ("flags", "answers", "said"),
    [
        ({}, {}, []),
        ({"private": False}, {}, ["a call without a token got 200"]),
        ({"follows": False}, {}, ["the copy is unchanged"]),
        ({"excludes": False}, {}, ["one permit went twice"]),
        ({}, {DESCRIBE: '{"lastAttemptTime": "2026-01-01T00:00:00Z", "status": {"code": 7}}'}, ["its last run failed"]),
        ({}, {DESCRIBE: "{}"}, ["it did not run"]),
        ({}, {DESCRIBE: None}, ["refused"]),
        ({"private": False, "excludes": False}, {}, ["without a token", "went twice"]),
    ],
)
def test_each_failure_is_reported_and_everything_is_removed(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, bool], answers: dict[str, Any], said: list[str]
) -> None:
    deployment = Deployment(**flags)
    failed = failures(monkeypatch, deployment, Script(**answers))
    assert [text for text, line in zip(said, failed, strict=True) if text not in line] == []
    assert len(deployment.put) >= 4
    assert deployment.kept == {}


def test_a_person_has_one_token_and_a_service_account_one_for_each_function() -> None:
    person, program = Script(), Script()
    urls = ["https://x/documents", "https://x/batches", "https://x/documents"]
    for account, script in ((ACCOUNT, person), ("deployer@demo-project.iam.gserviceaccount.com", program)):
        token = tokens(DEV, account, script)
        assert {token(url) for url in urls} == {"a-token"}
    assert person.asked == ["gcloud auth print-identity-token"]
    assert program.asked == [f"gcloud auth print-identity-token --audiences={url}" for url in urls[:2]]


def test_without_a_token_gclouds_own_message_is_reported() -> None:
    with pytest.raises(CommandFailed, match="refused"):
        tokens(DEV, ACCOUNT, Script(**{"gcloud auth print-identity-token": None}))("https://x/documents")


def test_what_never_happens_is_reported_after_the_timeout() -> None:
    with pytest.raises(SmokeTestFailed, match=f"no {REGION}"):
        poll(lambda: None, -1, f"no {REGION}")


def test_transient_errors_are_retried_and_reported_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_client, "PAUSE_SECONDS", 0)
    answers: list[httpx.Response | Exception] = [
        httpx.Response(503),
        httpx.ConnectError("broken"),
        httpx.Response(200, json={"a": 1}),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer of https://x/dev-documents"
        given = answers.pop(0) if answers else httpx.Response(500, text="a bug")
        if isinstance(given, Exception):
            raise given
        return given

    with deployment_client.DeploymentClient(
        "https://x/dev-", lambda url: f"of {url}", httpx.MockTransport(answer)
    ) as client:
        assert client.request("GET", "documents/x") == {"a": 1}
        monkeypatch.setattr(deployment_client, "RETRY_SECONDS_MAX", -1)
        with pytest.raises(SmokeTestFailed, match=r"GET documents/x has no answer.*; the last was: 500 a bug"):
            client.request("GET", "documents/x")
        answers.append(httpx.Response(409, text="no"))
        with pytest.raises(SmokeTestFailed, match="GET documents/x: 409 no"):
            client.request("GET", "documents/x")
