"""Call the deployed functions as a user does: over HTTPS, with an identity token.

A person's token is valid for every function. A service account's token has an audience, so each function needs its own.
Transient errors are retried; any other unexpected response raises `SmokeTestFailed`. For a few minutes after a function
or its invokers were created, 401, 403 and Google's own 404 page are also transient.
"""

import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from signalbox.catalogue.reading import CatalogueError
from signalbox_tools import http_client
from signalbox_tools.deploy import project_facts, token_hosts
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.prerequisites import is_federated, is_service_account
from signalbox_tools.deploy.programs import CommandFailed, Run
from signalbox_tools.deploy.waiting_clock import REAL, Clock

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
UNKNOWN_YET = frozenset({401, 403})
REACHED_SECONDS = 300.0  # the time that a new right of IAM takes to be known everywhere
PAUSE_SECONDS = 0.5
PAUSE_UNKNOWN_SECONDS = 5.0
RETRY_SECONDS_MAX = 60.0
TIMEOUT_SECONDS = 60.0
GENERATE = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateIdToken"
REGION = re.compile("[a-z]+-[a-z]+[0-9]+")
SHOWN = 300  # characters of an unexpected answer

Found = TypeVar("Found")


class SmokeTestFailed(Exception):
    """The deployed functions did not behave as expected."""


class DeploymentClient:
    """A client of one base URL, which ends in ``/`` or ``/PREFIX-``.

    `token` returns the token for a function's URL, or an empty text for a request without one.
    """

    def __init__(
        self,
        base_url: str,
        token: Callable[[str], str],
        transport: httpx.BaseTransport | None = None,
        clock: Clock = REAL,
    ) -> None:
        self.clock = clock
        self._known_at = clock.now() + REACHED_SECONDS
        self._base_url = base_url
        self._token = token
        self._http = http_client.client(TIMEOUT_SECONDS, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def request(self, method: str, path: str, body: Any = None, expect: tuple[int, ...] = (200, 201, 202, 204)) -> Any:
        """Send an idempotent request and return the response's JSON, or None. Raises `SmokeTestFailed`."""
        began, last = self.clock.now(), ""
        while True:
            response, last = self._try(method, path, body)
            unknown = response is not None and _unknown(response)
            if response is not None and not unknown and response.status_code not in RETRIED_STATUSES:
                break
            if self.clock.now() > (self._known_at if unknown else began + RETRY_SECONDS_MAX):
                raise SmokeTestFailed(f"{method} {path} has no answer; the last was: {last}")
            self.clock.sleep(PAUSE_UNKNOWN_SECONDS if unknown else PAUSE_SECONDS)
        if response.status_code not in expect:
            raise SmokeTestFailed(f"{method} {path}: {last}")
        return response.json() if response.content and response.status_code != 404 else None

    def status(self, path: str, *, signed: bool = True) -> int:
        """Return the status of a GET, with or without a token; 0 without a response."""
        try:
            return self._send("GET", path, None, signed=signed).status_code
        except httpx.TransportError:
            return 0

    def _try(self, method: str, path: str, body: Any) -> tuple[httpx.Response | None, str]:
        """Return the response, if there is one, and a description of what happened."""
        try:
            response = self._send(method, path, body)
        except httpx.TransportError as error:
            return None, repr(error)
        return response, _described(response)

    def _send(self, method: str, path: str, body: Any, *, signed: bool = True) -> httpx.Response:
        function = self._base_url + path.partition("/")[0].partition("?")[0]
        token = self._token(function) if signed else ""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._http.request(method, self._base_url + path, json=body, headers=headers)


def _described(response: httpx.Response) -> str:
    """Return the status and the text of a response. If the response is a problem, the text is the problem's detail."""
    text = response.text[:SHOWN]
    if response.headers.get("Content-Type", "").startswith("application/problem+json"):
        text = str(response.json().get("detail") or text)
    return f"{response.status_code} {text}"


def _unknown(response: httpx.Response) -> bool:
    """Return whether Google answered instead of the function.

    That happens for a function or an invoker that is too new.
    """
    page = "text/html" in response.headers.get("Content-Type", "")
    return response.status_code in UNKNOWN_YET or (response.status_code == 404 and page)


def poll(look: Callable[[], Found | None], seconds: float, otherwise: str, clock: Clock = REAL) -> Found:
    """Call `look` until its result is not None. After `seconds`, raise `SmokeTestFailed` with the text `otherwise`."""
    give_up_at = clock.now() + seconds
    while (found := look()) is None:
        if clock.now() > give_up_at:
            raise SmokeTestFailed(f"{otherwise} after {seconds:g} s")
        clock.sleep(PAUSE_SECONDS)
    return found


WORKFORCE_HINT = """An identity of a workforce pool has no identity token, and so cannot call functions. Call as an
account on which you have the role Service Account Token Creator, and run the command again:
gcloud config set auth/impersonate_service_account signalbox-deployer@{project}.iam.gserviceaccount.com"""


def tokens_to_call(target: Target, run: Run) -> Callable[[str], str]:
    """Return the tokens of gcloud's account for a deployment that a command calls.

    A person confirms the host first if it is not Google's for the project. The region is a part of Google's, so it must
    be one: a file could end the host with it. Raises `CommandFailed`.
    """
    if not REGION.fullmatch(target.region):
        raise CommandFailed(f"{target.region[:100]!r} is not a region such as us-central1")
    account = project_facts.signed_in(target, run)
    if not is_service_account(account) and target.base_url != target.own_url:
        token_hosts.confirm(target.base_url)
    return tokens(target, account, run)


def tokens(target: Target, account: str, run: Run) -> Callable[[str], str]:
    """Return a function that returns an identity token for a URL. Each token is valid for an hour and requested once.

    It is empty for an open function, whose code would receive a person's token with its signature: in front of other
    functions Cloud Run removes that. gcloud prints none for a service account that signed in by Workload Identity
    Federation, as in GitHub Actions; then IAM generates it. Raises `CommandFailed`.
    """
    kept: dict[str, str] = {}
    opened = frozenset[str]() if is_service_account(account) else _open_functions(target)

    def token(url: str) -> str:
        if url.removeprefix(target.own_url).removeprefix(target.base_url) in opened:
            return ""
        key = target.audience(url) if is_service_account(account) else ""
        if key not in kept:
            audience = [f"--audiences={key}"] if key else []
            outcome = run(("gcloud", "auth", "print-identity-token", *audience), folder=target.root)
            if not outcome.ok and not key:
                remedy = f"\n{WORKFORCE_HINT.format(project=target.project)}" if is_federated(account) else ""
                raise CommandFailed(f"{outcome.error.strip()}{remedy}")
            kept[key] = outcome.text.strip() if outcome.ok else _generated(target, account, key, run, outcome.error)
        return kept[key]

    return token


def _open_functions(target: Target) -> frozenset[str]:
    """Return the URL segments of the open functions. Raises `CommandFailed` if the catalogue cannot be read."""
    try:
        return frozenset(each.segment for each in target.catalogue.functions.values() if each.open_to_all)
    except (CatalogueError, OSError) as error:
        raise CommandFailed(str(error)) from error


def _generated(target: Target, account: str, audience: str, run: Run, refusal: str) -> str:
    """Return an identity token that IAM generates for an account, with the account's access token.

    Raises `CommandFailed`, with gcloud's `refusal` to print one.
    """
    access = run(("gcloud", "auth", "print-access-token"), folder=target.root)
    if not access.ok:
        raise CommandFailed(access.error.strip())
    headers = {"Authorization": f"Bearer {access.text.strip()}"}
    body = {"audience": audience, "includeEmail": True}
    try:
        with http_client.client(TIMEOUT_SECONDS) as http:
            answer = http.post(GENERATE.format(account=account), json=body, headers=headers)
    except httpx.HTTPError as error:
        raise CommandFailed(f"{refusal.strip()}\nIAM could not be asked for a token either: {error}") from error
    if not answer.is_success:
        raise CommandFailed(
            f"{refusal.strip()}\nIAM generates no token for {account} either, which needs "
            f"roles/iam.serviceAccountOpenIdTokenCreator on itself: {answer.status_code} {answer.text[:SHOWN]}"
        )
    return str(answer.json()["token"])
