"""A document posted without a key gets one, and its address in the answer; a repeat under one header stores it once."""

from collections.abc import Iterator

import pytest

from tests.unit.documents.documents_front import Front, front, problem

BASE = "http://127.0.0.1:8080/documents/"


@pytest.fixture
def at() -> Iterator[Front]:
    with front() as served:
        yield served


def test_a_document_without_a_key_gets_one_and_its_address(at: Front) -> None:
    answer = at.ask("POST", "/", {"n": 1})
    assert answer.status_code == 201
    assert answer.json
    key = answer.json["key"]
    assert answer.headers["Location"] == BASE + key
    assert at.seen(key) == {"key": key, "n": 1} == answer.json
    again = at.ask("POST", "/", {"n": 1})
    assert again.json
    assert again.json["key"] != key


def test_behind_a_domain_the_address_is_that_of_the_domain(at: Front, behind_a_domain: str) -> None:
    assert at.ask("POST", "/", {"key": "a"}).headers["Location"] == f"{behind_a_domain}documents/a"


def test_a_repeat_under_one_idempotency_key_stores_one_document(at: Front) -> None:
    first, second = (at.ask("POST", "/", {"n": 1}, Idempotency_Key="order 7") for _ in range(2))
    assert (first.status_code, first.headers["Location"]) == (201, BASE + "order%207")
    assert (second.status_code, "Location" in second.headers) == (200, False)
    assert first.json == second.json == {"key": "order 7", "n": 1}


def test_a_late_repeat_returns_the_document_as_it_is_now(at: Front) -> None:
    at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7")
    at.ask("PUT", "/order-7", {"n": 2})
    repeated = at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7")
    assert (repeated.status_code, repeated.json) == (200, {"key": "order-7", "n": 2})
    assert at.seen("order-7") == {"key": "order-7", "n": 2}


def test_a_late_repeat_of_a_document_with_its_own_key_does_not_replace_it_again(at: Front) -> None:
    at.ask("PUT", "/a", {"n": 0})
    assert at.ask("POST", "/", {"key": "a", "n": 1}, Idempotency_Key="k").status_code == 200
    at.ask("PUT", "/a", {"n": 2})
    repeated = at.ask("POST", "/", {"key": "a", "n": 1}, Idempotency_Key="k")
    assert (repeated.status_code, repeated.json) == (200, {"key": "a", "n": 2})


def test_a_repeat_after_the_deletion_is_refused(at: Front) -> None:
    at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7")
    at.ask("DELETE", "/order-7")
    answer = at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7")
    assert problem(answer) == (410, "document-deleted", "Idempotency-Key")
    assert at.seen("order-7") is None


def test_a_repeat_with_another_body_is_refused(at: Front) -> None:
    at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7")
    answer = at.ask("POST", "/", {"n": 2}, Idempotency_Key="order-7")
    assert problem(answer) == (409, "other-body", "Idempotency-Key")
    assert at.seen("order-7") == {"key": "order-7", "n": 1}


def test_an_idempotency_key_that_is_the_key_of_another_document_does_not_replace_it(at: Front) -> None:
    at.ask("PUT", "/ann", {"name": "Ann"})
    answer = at.ask("POST", "/", {"n": 1}, Idempotency_Key="ann")
    assert problem(answer) == (409, "other-body", "Idempotency-Key")
    assert at.seen("ann") == {"key": "ann", "name": "Ann"}


def test_a_repeat_is_recognised_before_its_precondition_is_checked(at: Front) -> None:
    answers = [at.ask("POST", "/", {"n": 1}, Idempotency_Key="a", If_None_Match="*") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    refused = at.ask("POST", "/", {"key": "a", "n": 1}, Idempotency_Key="b", If_None_Match="*")
    assert problem(refused)[:2] == (412, "precondition-failed")


def test_a_repeat_returns_a_document_that_another_one_embeds(at: Front) -> None:
    at.ask("PUT", "/shelf", {"holds": {"key": "order-7"}})
    answers = [at.ask("POST", "/", {"n": 1}, Idempotency_Key="order-7") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]


def test_a_key_in_the_body_goes_before_the_header(at: Front) -> None:
    assert at.ask("POST", "/", {"key": "a"}, Idempotency_Key="b").json == {"key": "a"}
    assert at.ask("POST", "/", {"key": "c"}).headers["Location"] == BASE + "c"


@pytest.mark.parametrize(
    ("body", "header", "wanted"),
    [
        ({"key": ""}, "", (400, "key-required", "key")),
        ({"key": None}, "", (400, "key-required", "key")),
        ({}, "a/b", (400, "bad-key", "key")),
        ([{"n": 1}], "a", (200, "key-required", "key")),
    ],
)
def test_a_key_that_is_none_is_refused(
    at: Front, body: object, header: str, wanted: tuple[int, str, str | None]
) -> None:
    answer = at.ask("POST", "/", body, Idempotency_Key=header)
    if isinstance(body, list):
        assert answer.json
        [result] = answer.json["results"]
        assert (result["status"], result["problem"]["type"]) == (400, "urn:signalbox:problem:key-required")
    else:
        assert problem(answer) == wanted
