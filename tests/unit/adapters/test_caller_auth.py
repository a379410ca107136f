"""Only the queues' account may call a task's entry point, and only the schedules' account a schedule's."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import flask
import pytest

from signalbox.adapters.http import caller_auth
from signalbox.adapters.http.caller_auth import KEPT_SECONDS_MAX, FetchedKeys, IdentityTokens, PublicKeys, max_age_of
from signalbox.adapters.http.task_deliveries import schedule_entry, task_entry
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.problems import PermissionDenied, Unauthenticated, Unavailable
from signalbox.core.token_claims import Expected, check_claims
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key

pytestmark = pytest.mark.usefixtures("ports_of_the_log")

TASKS, SCHEDULER, ADDRESS = "tasks@p.example", "scheduler@p.example", "https://link-refresh.example"
GOOGLE, STRANGER = Identity(new_private_key()), Identity(new_private_key())
NOW = 1_800_000_000
CLAIMS: dict[str, Any] = {
    "iss": "https://accounts.google.com",
    "aud": ADDRESS,
    "email": TASKS,
    "email_verified": True,
    "iat": NOW - 60,
    "exp": NOW + 60,
}


@pytest.mark.parametrize("change", [{}, {"iss": "accounts.google.com"}, {"exp": NOW - 9}, {"iat": NOW + 9}])
def test_a_valid_token_of_the_right_account_is_accepted(change: dict[str, Any]) -> None:
    check_claims(CLAIMS | change, Expected(frozenset({TASKS}), ADDRESS), NOW)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://accounts.example"}, "not issued by Google"),
        ({"iss": None}, "not issued by Google"),
        ({"iss": ["accounts.google.com"]}, "not issued by Google"),
        ({"aud": ADDRESS + "/"}, "another audience"),
        ({"aud": [ADDRESS]}, "another audience"),
        ({"exp": NOW - 10}, "expired"),
        ({"exp": float("nan")}, "expired"),
        ({"exp": str(NOW + 60)}, "no `exp`"),
        ({"iat": NOW + 10}, "not valid yet"),
        ({"iat": None}, "no `iat`"),
    ],
)
def test_a_token_that_is_not_valid_here_and_now_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Unauthenticated, match=why) as refused:
        check_claims(CLAIMS | change, Expected(frozenset({TASKS}), ADDRESS), NOW)
    assert (refused.value.status, refused.value.headers) == (401, {"WWW-Authenticate": "Bearer"})


@pytest.mark.parametrize("change", [{"email": SCHEDULER}, {"email": None}, {"email_verified": "true"}])
def test_another_account_may_not_call(change: dict[str, Any]) -> None:
    with pytest.raises(PermissionDenied):
        check_claims(CLAIMS | change, Expected(frozenset({TASKS}), ADDRESS), NOW)


class Deployment:
    """Functions whose settings a test chooses, and keys of which it counts the fetches."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.fetches = 0
        self.keys: Mapping[str, str] | Exception = GOOGLE.certs()
        self.settings: Settings
        self.tokens: IdentityTokens
        self.configure()

    def configure(self, **changes: str) -> None:
        usual = {
            "SIGNALBOX_TASKS_ACCOUNT": TASKS,
            "SIGNALBOX_SCHEDULER_ACCOUNT": SCHEDULER,
            "SIGNALBOX_FUNCTION_URL": "https://{function}.example",
            "K_SERVICE": "link-refresh",
        }
        self.settings = from_environment(usual | changes)
        self.tokens = IdentityTokens(PublicKeys("", self._fetch), self.settings.signatures_removed)

    def _fetch(self, _: str) -> FetchedKeys:
        self.fetches += 1
        if isinstance(self.keys, Exception):
            raise self.keys
        return FetchedKeys(self.keys)

    def call(self, token: str = "", schedule: bool = False, headers: Mapping[str, str] | None = None) -> int:
        """POST as a queue or a schedule does, and return the status."""
        entry: Callable[[flask.Request], flask.Response]
        if schedule:
            entry = schedule_entry("link_refresh")(lambda _: self.runs.append("schedule"))
        else:
            entry = task_entry("link_refresh")(lambda _, delivered: self.runs.append(delivered.task))
        headers = headers or ({"Authorization": f"Bearer {token}"} if token else {})
        body = {"operation": "o", "task": "page", "payload": {}}
        with flask.Flask("x").test_request_context(method="POST", json=body, headers=dict(headers)):
            return entry(flask.request).status_code


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    created = Deployment()
    for module in ("caller_auth", "task_deliveries"):
        monkeypatch.setattr(f"signalbox.adapters.http.{module}.settings", lambda: created.settings)
    monkeypatch.setattr(caller_auth, "_tokens", lambda: created.tokens)
    return created


def token(account: str = TASKS, audience: str = ADDRESS, identity: Identity = GOOGLE) -> str:
    return identity.token(account, audience, time.time())


def stripped(token: str) -> str:
    return token.rpartition(".")[0] + ".SIGNATURE_REMOVED_BY_GOOGLE"


def test_a_task_of_the_queues_account_runs_and_a_schedule_of_its_own(deployment: Deployment) -> None:
    assert deployment.call(token()) == 204
    assert deployment.call(token(SCHEDULER), schedule=True) == 204
    assert deployment.runs == ["page", "schedule"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("", 401),
        ("not.a.token", 401),
        ("e30.e30", 401),
        ("." * 2, 401),
        (f"{'W' * 20_000}.e30.e30", 401),
        (token(identity=STRANGER), 401),
        (token(audience="https://link-fan-out.example"), 401),
        (stripped(token()), 401),
        (token()[:-8] + "AAAAAAAA", 401),
        (f"{token()},Bearer {token()}", 401),
        (token(SCHEDULER), 403),
        (token("somebody@p.example"), 403),
    ],
)
def test_another_caller_does_not_run_a_task(deployment: Deployment, given: str, status: int) -> None:
    assert deployment.call(given) == status
    assert deployment.runs == []


def test_a_token_that_was_valid_until_a_minute_ago_is_refused(deployment: Deployment) -> None:
    identity = Identity(new_private_key())
    deployment.keys = identity.certs()
    assert deployment.call(identity.token(TASKS, ADDRESS, time.time() - 3660)) == 401
    assert deployment.runs == []


def test_the_queues_account_may_not_call_a_schedules_route(deployment: Deployment) -> None:
    assert deployment.call(token(), schedule=True) == 403
    assert deployment.runs == []


def test_a_refusal_is_a_problem_and_an_error_in_the_log(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.call(token("somebody@p.example"))
    refused, handled = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (refused["severity"], refused["message"]) == ("ERROR", "caller refused")
    assert refused["detail"].startswith("somebody@p.example may not call")
    assert handled["status"] == 403


def test_a_removed_signature_is_accepted_only_where_the_deployment_declares_that_it_was_checked(
    deployment: Deployment,
) -> None:
    assert deployment.call(stripped(token())) == 401
    deployment.configure(SIGNALBOX_SIGNATURES="removed")
    assert deployment.call(stripped(token())) == 204
    assert deployment.fetches == 1  # of the first call, which looked for the key


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (stripped(token(SCHEDULER)), 403),
        (stripped(token(audience="https://other.example")), 401),
        (stripped(token()) + "X", 401),
        (token(identity=STRANGER), 401),
        (token(), 204),
    ],
)
def test_where_signatures_are_removed_claims_count_and_a_signature_that_is_there_is_checked(
    deployment: Deployment, given: str, status: int
) -> None:
    deployment.configure(SIGNALBOX_SIGNATURES="removed")
    assert deployment.call(given) == status


def test_the_header_that_cloud_run_checks_first_is_the_one_that_counts(deployment: Deployment) -> None:
    deployment.configure(SIGNALBOX_SIGNATURES="removed")
    forged, own = f"Bearer {stripped(token())}", f"Bearer {stripped(token('somebody@p.example'))}"
    assert deployment.call(headers={"Authorization": forged, "X-Serverless-Authorization": own}) == 403
    assert deployment.call(headers={"Authorization": forged, "X-Serverless-Authorization": ""}) == 401
    assert deployment.call(headers={"Authorization": own, "X-Serverless-Authorization": forged}) == 204


def test_keys_are_fetched_once_for_many_calls(deployment: Deployment) -> None:
    assert [deployment.call(token()) for _ in range(5)] == [204] * 5
    assert deployment.fetches == 1


def test_a_call_is_retried_while_the_keys_cannot_be_fetched(deployment: Deployment) -> None:
    deployment.keys = OSError("down")
    assert deployment.call(token()) == 503
    assert deployment.runs == []


def test_a_deployment_without_an_account_refuses_all_callers_in_the_cloud_and_none_in_a_test(
    deployment: Deployment,
) -> None:
    deployment.configure(SIGNALBOX_TASKS_ACCOUNT="")
    assert deployment.call(token()) == 403
    deployment.configure(SIGNALBOX_TASKS_ACCOUNT="", K_SERVICE="")
    assert deployment.call() == 204


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_an_unknown_key_id_is_fetched_but_not_at_every_call() -> None:
    clock, answers = Clock(), iter([{"a": "A"}, {"a": "A", "b": "B"}])
    keys = PublicKeys("", lambda _: FetchedKeys(next(answers)), clock)
    assert [keys.pem("a"), keys.pem("b"), keys.pem("b")] == ["A", None, None]
    clock.seconds = 31
    assert [keys.pem("b"), keys.pem("c")] == ["B", None]


def test_a_withdrawn_key_is_gone_after_some_hours() -> None:
    clock, answers = Clock(), iter([{"a": "A"}, {"b": "B"}])
    keys = PublicKeys("", lambda _: FetchedKeys(next(answers)), clock)
    assert keys.pem("a") == "A"
    clock.seconds = 6 * 3600
    assert keys.pem("a") is None


@pytest.mark.parametrize(("max_age", "seconds"), [(3_600, 3_600), (0, 30), (10**9, KEPT_SECONDS_MAX)])
def test_keys_are_cached_for_as_long_as_their_response_states(max_age: float, seconds: float) -> None:
    clock, answers = Clock(), iter([{"a": "A"}, {"b": "B"}])
    keys = PublicKeys("", lambda _: FetchedKeys(next(answers), max_age), clock)
    assert keys.pem("a") == "A"
    clock.seconds = seconds - 1
    assert keys.pem("a") == "A"
    clock.seconds = seconds
    assert keys.pem("a") is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("public, max-age=21413, must-revalidate, no-transform", 21_413),
        ("max-age=5", 5),
        ("Max-Age=7,public", 7),
        ("s-maxage=9", KEPT_SECONDS_MAX),
        ("max-age=", KEPT_SECONDS_MAX),
        ("max-age=99999999999999", KEPT_SECONDS_MAX),
        ("", KEPT_SECONDS_MAX),
    ],
)
def test_the_age_of_a_response_is_read_from_its_header(header: str, seconds: float) -> None:
    assert max_age_of(header) == seconds


def test_after_a_failed_fetch_calls_fail_without_another_one() -> None:
    clock, asked = Clock(), []

    def fetch(url: str) -> FetchedKeys:
        asked.append(url)
        if len(asked) == 1:
            raise OSError
        return FetchedKeys({"a": "A"})

    keys = PublicKeys("url", fetch, clock)
    for _ in range(3):
        with pytest.raises(Unavailable):
            keys.pem("a")
    assert asked == ["url"]
    clock.seconds = 1
    assert keys.pem("a") == "A"
