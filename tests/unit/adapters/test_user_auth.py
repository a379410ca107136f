"""A function with `auth: firebase` answers signed-in users, and refuses all other callers with 401."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import flask
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.auth import crypt, jwt
from google.auth.crypt import es256

from signalbox import Function, Request
from signalbox.adapters import settings
from signalbox.adapters.http import caller_auth
from signalbox.adapters.http.caller_auth import FetchedKeys, PublicKeys, UserTokens
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.problems import Unauthenticated
from signalbox.core.token_claims import user_from_claims
from signalbox.testing.simulated_cloud import application
from signalbox.testing.users import user_token
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key

PRIVATE, STRANGERS = new_private_key(), new_private_key()
FIREBASE = Identity(PRIVATE).public
PROJECT = "p"
NOW = 1_800_000_000
CLAIMS: dict[str, Any] = {
    "iss": "https://securetoken.google.com/p",
    "aud": PROJECT,
    "sub": "ann",
    "iat": NOW - 60,
    "exp": NOW + 60,
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iss": "https://securetoken.google.com/q"}, "not issued by Firebase"),
        ({"iss": "https://accounts.google.com"}, "not issued by Firebase"),
        ({"iss": ["https://securetoken.google.com/p"]}, "not issued by Firebase"),
        ({"aud": "q"}, "another project"),
        ({"aud": [PROJECT]}, "another project"),
        ({"exp": NOW - 10}, "expired"),
        ({"exp": None}, "no `exp`"),
        ({"exp": 10**400}, "`exp` is not a time"),
        ({"iat": NOW + 10}, "not valid yet"),
        ({"iat": "0"}, "no `iat`"),
        ({"sub": ""}, "names no user"),
        ({"sub": "a" * 129}, "names no user"),
        ({"sub": 7}, "names no user"),
        ({"sub": None}, "names no user"),
    ],
)
def test_a_token_that_is_not_valid_here_and_now_names_no_user(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Unauthenticated, match=why) as refused:
        user_from_claims(CLAIMS | change, PROJECT, NOW)
    assert (refused.value.status, refused.value.headers) == (401, {"WWW-Authenticate": "Bearer"})


def test_a_user_has_what_the_token_claims() -> None:
    ann = user_from_claims(CLAIMS | {"email": "ann@a.example", "email_verified": True, "role": "chief"}, PROJECT, NOW)
    assert (ann.id, ann.email, ann.email_verified, ann.name) == ("ann", "ann@a.example", True, None)
    assert ann.claims["role"] == "chief"
    bare = user_from_claims(CLAIMS | {"email": 7, "email_verified": "yes", "name": "Bob"}, PROJECT, NOW)
    assert (bare.email, bare.email_verified, bare.name) == (None, False, "Bob")


class Deployed:
    """A function with users, whose settings a test chooses, and keys of which it counts the fetches."""

    def __init__(self) -> None:
        self.fetches = 0
        self.keys: Mapping[str, str] | Exception = {FIREBASE.key_id: FIREBASE.pem}
        self.settings: Settings
        self.tokens: UserTokens
        self.configure()
        self.client = _application().test_client()

    def configure(self, **changes: str) -> None:
        usual = {"SIGNALBOX_PROJECT": PROJECT, "SIGNALBOX_AUTH": '{"albums": "firebase"}', "K_SERVICE": "albums"}
        self.settings = from_environment(usual | changes)
        settings.bind(self.settings)
        self.tokens = UserTokens(PublicKeys("", self._fetch), unsigned_too=self.settings.tokens_unsigned)

    def _fetch(self, _: str) -> FetchedKeys:
        self.fetches += 1
        if isinstance(self.keys, Exception):
            raise self.keys
        return FetchedKeys(self.keys)

    def get(self, token: str | None = None, path: str = "/", **headers: str) -> tuple[int, Any]:
        sent = headers if token is None else {"Authorization": f"Bearer {token}", **headers}
        answer = self.client.get(path, headers=sent)
        assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401)
        return answer.status_code, answer.json


def _application() -> flask.Flask:
    function = Function("albums")

    @function.http("GET")
    def show(request: Request) -> dict[str, str]:
        return {"user": request.user.id}

    return application(function)


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    created = Deployed()
    monkeypatch.setattr(caller_auth, "_user_tokens", lambda: created.tokens)
    yield created
    settings.bind(None)


def signed(private: bytes = PRIVATE, key_id: str = FIREBASE.key_id, **claims: Any) -> str:
    """Return a token as Firebase signs it, valid now."""
    now = int(time.time())
    signer = crypt.RSASigner.from_string(private, key_id)
    return str(jwt.encode(signer, CLAIMS | {"iat": now, "exp": now + 60} | claims).decode())


def test_who_signed_in_is_the_requests_user(deployed: Deployed) -> None:
    assert deployed.get(signed()) == (200, {"user": "ann"})
    assert deployed.get(signed(sub="bob")) == (200, {"user": "bob"})
    assert deployed.fetches == 1


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "x",
        "a.b.c",
        signed(STRANGERS),
        signed(key_id="another"),
        signed()[:-8] + "AAAAAAAA",
        signed(exp=int(time.time()) - 60),
        signed(aud="q"),
        user_token("ann"),
    ],
)
def test_everybody_else_is_refused_with_401(deployed: Deployed, token: str | None) -> None:
    status, problem = deployed.get(token)
    assert (status, problem["type"]) == (401, "urn:signalbox:problem:unauthenticated")
    assert problem["detail"]


def test_a_token_of_another_scheme_or_header_is_none(deployed: Deployed) -> None:
    assert deployed.get(Authorization=f"Basic {signed()}")[0] == 401
    assert deployed.get(None, **{"X-Serverless-Authorization": f"Bearer {signed()}"})[0] == 401


def test_callers_without_a_token_cannot_find_out_which_addresses_exist(deployed: Deployed) -> None:
    assert (deployed.get(path="/nowhere")[0], deployed.get(signed(), path="/nowhere")[0]) == (401, 404)


def test_a_call_may_be_retried_while_the_keys_cannot_be_fetched(deployed: Deployed) -> None:
    deployed.keys = OSError()
    assert deployed.get(signed())[0] == 503


def test_unsigned_tokens_are_accepted_by_the_local_stack(deployed: Deployed) -> None:
    deployed.configure(K_SERVICE="", SIGNALBOX_USER_TOKENS="unsigned")
    assert deployed.get(user_token("ann")) == (200, {"user": "ann"})
    assert deployed.get(signed()) == (200, {"user": "ann"})
    assert deployed.get(user_token("ann", aud="q"))[0] == 401
    deployed.configure(SIGNALBOX_USER_TOKENS="unsigned")
    assert deployed.get(user_token("ann"))[0] == 401


def test_a_preflight_carries_no_token_and_needs_none(deployed: Deployed) -> None:
    page = "https://app.example.com"
    settings.bind(replace(deployed.settings, origins={"albums": frozenset([page])}))
    refused = deployed.client.get("/", headers={"Origin": page})
    asked = deployed.client.options("/", headers={"Origin": page, "Access-Control-Request-Method": "GET"})
    assert (asked.status_code, refused.status_code) == (204, 401)
    assert refused.headers["Access-Control-Allow-Origin"] == page


def test_a_function_without_users_has_none(deployed: Deployed) -> None:
    settings.bind(replace(deployed.settings, auth={}))
    assert deployed.get(signed())[0] == 500


def test_a_token_of_another_algorithm_is_refused_even_if_a_published_key_verifies_it(deployed: Deployed) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    deployed.keys = {"curve": pem}
    now = int(time.time())
    signer = es256.ES256Signer(private, "curve")
    token = jwt.encode(signer, CLAIMS | {"iat": now, "exp": now + 60}).decode()
    assert jwt.decode(token, certs=pem, audience=PROJECT)["sub"] == "ann"
    status, problem = deployed.get(token)
    assert (status, problem["detail"]) == (401, "The token is not signed with RS256.")
