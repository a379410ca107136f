"""Every invalid token is refused with 401 and a problem, never with a 5xx, and never admitted.

The tokens are texts, segments of any bytes, and segments of any JSON under headers that look right; a real token with a
part replaced is among them. Only the local stack reads unsigned tokens; it is tested with them, too.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.http import caller_auth
from signalbox.adapters.http.caller_auth import FetchedKeys, PublicKeys, UserTokens
from tests.unit.adapters import test_user_auth as users

pytestmark = pytest.mark.slow

KEYS = {users.FIREBASE.key_id: users.FIREBASE.pem}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.integers() | st.floats() | st.just(10**400) | JSON
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.just(users.CLAIMS["iss"]) | JSON,
        "aud": st.just(users.PROJECT) | JSON,
        "exp": NUMBERS,
        "iat": NUMBERS,
        "sub": JSON,
    },
)
ALGORITHMS = st.sampled_from(["none", "RS256", "ES256", "HS256"])
HEADERS = st.fixed_dictionaries({}, optional={"alg": ALGORITHMS | JSON, "kid": st.just(users.FIREBASE.key_id) | JSON})


def tampered(place: int, instead: str) -> list[str]:
    """Return the segments of a real token with one replaced."""
    return [*REAL[:place], instead, *REAL[place + 1 :]]


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


SEGMENTS = (CLAIMS | HEADERS | JSON).map(segment) | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())
REAL = users.signed().split(".")
TAMPERED = st.tuples(st.integers(0, 2), SEGMENTS).map(lambda one: ".".join(tampered(*one)))
TOKENS = (
    st.tuples(HEADERS.map(segment), CLAIMS.map(segment), SEGMENTS | st.just("") | st.just(REAL[2])).map(".".join)
    | TAMPERED.filter(lambda token: token != ".".join(REAL))
    | st.lists(SEGMENTS, max_size=5).map(".".join)
    | st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"))
)


@pytest.fixture(params=["signed", "unsigned"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    deployed = users.Deployed()
    unsigned = request.param == "unsigned"
    adapters_settings.bind(replace(deployed.settings, tokens_unsigned=unsigned))
    tokens = UserTokens(PublicKeys("", lambda _: FetchedKeys(KEYS)), unsigned_too=unsigned)
    monkeypatch.setattr(caller_auth, "_user_tokens", lambda: tokens)
    yield deployed.client
    adapters_settings.bind(None)


@settings(max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(token=TOKENS, scheme=st.sampled_from(["Bearer ", "bearer ", "Basic ", ""]))
def test_no_malformed_token_admits_anybody(client: FlaskClient, token: str, scheme: str) -> None:
    answer = client.get("/", headers={"Authorization": f"{scheme}{token}"})
    assert isinstance(client.application, flask.Flask)
    assert (answer.status_code, answer.content_type) == (401, "application/problem+json")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
