"""The gazetteer's HTTP client against a transport in this process."""

import json
from collections.abc import Callable

import httpx
import pytest

from examples.gazetteer.client import Documents, GaveUp, Refused

IDENTITY = "of a user"
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler, pauses: list[float] | None = None, retry_seconds: float = 60) -> Documents:
    record = [] if pauses is None else pauses
    transport = httpx.MockTransport(handler)
    return Documents(
        "http://test/", token=IDENTITY, retry_seconds=retry_seconds, transport=transport, sleep=record.append
    )


def in_turn(*answers: httpx.Response | Exception) -> Handler:
    left = list(answers)

    def handler(_: httpx.Request) -> httpx.Response:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handler


def test_a_put_sends_the_document_under_its_escaped_key_with_the_token() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, json={"key": "a/ü", "n": 1})

    assert client(handler).put("a/ü", {"n": 1}) == {"key": "a/ü", "n": 1}
    assert (seen[0].method, str(seen[0].url)) == ("PUT", "http://test/documents/a%2F%C3%BC")
    assert json.loads(seen[0].content) == {"n": 1}
    assert seen[0].headers["Authorization"] == f"Bearer {IDENTITY}"


def test_transient_errors_are_retried_not_before_retry_after() -> None:
    pauses: list[float] = []
    busy = httpx.Response(503, headers={"Retry-After": "2"})
    handler = in_turn(busy, httpx.ConnectError("down"), httpx.Response(502), httpx.Response(200, json={"key": "a"}))
    assert client(handler, pauses).get("a") == {"key": "a"}
    assert len(pauses) == 3
    assert pauses[0] == 2
    assert 0 < pauses[1] < pauses[2] < 1


def test_a_refusal_is_final_and_has_a_reason() -> None:
    problem = {"title": "Send a JSON object", "status": 400, "detail": "This is a list."}
    with pytest.raises(Refused, match=r"400 This is a list\.") as refused:
        client(in_turn(httpx.Response(400, json=problem))).put("a", {})
    assert (refused.value.status, refused.value.problem) == (400, problem)


def test_a_bug_of_the_service_is_not_retried() -> None:
    with pytest.raises(Refused, match="500 Internal Server Error"):
        client(in_turn(httpx.Response(500, text="oops"))).get("a")


def test_a_client_stops_waiting_after_its_time_limit() -> None:
    with pytest.raises(GaveUp, match="no answer in 1 s"):
        client(lambda _: httpx.Response(503, headers={"Retry-After": "5"}), retry_seconds=1).get("a")


def test_nothing_under_a_key_reads_as_none() -> None:
    assert client(in_turn(httpx.Response(404))).get("a") is None


def test_a_delete_whose_first_answer_was_lost_is_done_when_nothing_is_left() -> None:
    pauses: list[float] = []
    client(in_turn(httpx.ReadError("cut"), httpx.Response(404)), pauses).delete("a")
    assert len(pauses) == 1


def test_find_reads_page_by_page_and_sends_values_as_json() -> None:
    seen: list[list[tuple[str, str]]] = []
    pages = {"": {"documents": [{"key": "a"}], "next_page_token": "x="}, "x=": {"documents": [{"key": "b"}]}}

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.params.multi_items())
        return httpx.Response(200, json=pages[request.url.params.get("page_token", "")])

    found = client(handler).find({"country.name": "1", "n": True}, page_documents=1)
    assert list(found) == [{"key": "a"}, {"key": "b"}]
    asked = [("where", 'country.name=="1"'), ("where", "n==true"), ("limit", "1")]
    assert seen == [asked, [*asked, ("page_token", "x=")]]


def test_first_takes_one_document_at_most() -> None:
    handler = in_turn(
        httpx.Response(200, json={"documents": [{"key": "a"}], "next_page_token": "x"}),
        httpx.Response(200, json={"documents": []}),
    )
    documents = client(handler)
    assert documents.first({"n": 1}) == {"key": "a"}
    assert documents.first({"n": 1}) is None


def test_many_documents_are_sent_in_one_call_and_only_those_without_an_answer_again() -> None:
    sent: list[list[str]] = []
    refusal, busy = {"status": 409, "title": "twice"}, {"status": 503, "title": "Ask again"}
    outcomes: list[dict[str, dict[str, object] | None]] = [{"a": None, "b": refusal, "c": busy}, {"c": None}]

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append([body["key"] for body in json.loads(request.content)])
        ended = outcomes.pop(0)
        results = [
            {"key": key} | ({"problem": problem} if (problem := ended[key]) else {"status": 201}) for key in sent[-1]
        ]
        return httpx.Response(200, json={"results": results})

    pauses: list[float] = []
    assert client(handler, pauses).put_many({"a": {}, "b": {"n": 1}, "c": {}}) == {"b": refusal}
    assert sent == [["a", "b", "c"], ["c"]]
    assert len(pauses) == 1


def test_a_bulk_put_also_stops_after_its_time_limit() -> None:
    busy = {"results": [{"key": "a", "status": 503, "problem": {"status": 503}}]}
    with pytest.raises(GaveUp, match="1 documents, the first a"):
        client(lambda _: httpx.Response(200, json=busy), retry_seconds=0).put_many({"a": {}})
