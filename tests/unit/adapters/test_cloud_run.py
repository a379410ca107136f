"""The author of what a caller of a private function writes is the account that Cloud Run has verified, and no other."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from signalbox.adapters import settings
from signalbox.adapters.settings import settings as adapter_settings
from signalbox.core.token_claims import account_of
from signalbox.history.model import HISTORY, HistoryRule
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

ANN = {"iss": "https://accounts.google.com", "sub": "1046", "email": "ann@example.com", "email_verified": True}
BEN = ANN | {"email": "ben@example.com"}
FUNCTION = "function:documents"
DEEP = base64.urlsafe_b64encode(b"[" * 99_999).decode().rstrip("=")


def token(claims: object, end: str = "SIGNATURE_REMOVED_BY_GOOGLE") -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)]
    return f"Bearer {'.'.join(parts)}.{end}"


@pytest.mark.parametrize(
    ("claims", "account"),
    [
        (ANN, "ann@example.com"),
        (ANN | {"iss": "accounts.google.com"}, "ann@example.com"),
        (ANN | {"email_verified": False}, "1046"),
        (ANN | {"email_verified": "true"}, "1046"),
        ({"iss": "https://accounts.google.com", "sub": "1046"}, "1046"),
        (ANN | {"iss": "https://securetoken.google.com/p"}, None),
        (ANN | {"iss": ["https://accounts.google.com"]}, None),
        ({"iss": "https://accounts.google.com"}, None),
        ({"iss": "https://accounts.google.com", "sub": 1046}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_account_is_the_verified_address_or_else_the_number_that_google_issued(
    claims: object, account: str | None
) -> None:
    assert account_of(claims) == account


@pytest.fixture
def private(harness: Harness) -> Iterator[Harness]:
    """Return a harness whose functions are private, behind Cloud Run."""
    before = settings.bind(replace(adapter_settings(), signatures_removed=True))
    with HISTORY.replaced([HistoryRule(prefix="c-")]):
        yield harness
    settings.bind(before)


def author(harness: Harness, headers: Mapping[str, str]) -> Any:
    with HISTORY.replaced([HistoryRule(prefix="c-")]):
        assert harness.put("documents/c-1", json={"n": 1}, headers=headers).status == 201
        [version] = harness.get("documents/c-1/versions").json["versions"]
    return version["author"]


def test_the_author_is_the_account_that_cloud_run_has_verified(private: Harness) -> None:
    assert author(private, {"Authorization": token(ANN)}) == "account:ann@example.com"


def test_of_two_headers_only_the_one_that_cloud_run_verifies_names_the_author(private: Harness) -> None:
    both = {"Authorization": token(ANN), "X-Serverless-Authorization": token(BEN)}
    assert author(private, both) == "account:ben@example.com"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": token(ANN, "c2lnbmF0dXJl")},
        {"Authorization": token(ANN), "X-Serverless-Authorization": ""},
        {"Authorization": f"{token(BEN, 'c2lnbmF0dXJl')}, {token(ANN)}"},
        {"Authorization": f"{token(BEN)}, {token(ANN)}"},
        {"Authorization": "Bearer e30.bm8ganNvbg.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": "Bearer e30._.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": f"Bearer e30.{DEEP}.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": token(ANN | {"iss": "https://accounts.example"})},
    ],
)
def test_an_account_that_cloud_run_has_not_verified_is_not_named(private: Harness, headers: dict[str, str]) -> None:
    assert author(private, headers) == FUNCTION


def test_in_front_of_an_open_function_and_on_a_laptop_a_token_proves_nothing(harness: Harness) -> None:
    assert not adapter_settings().signatures_removed
    assert author(harness, {"Authorization": token(ANN)}) == FUNCTION
