"""Answers of a user's routes that no client can read as they are meant: refused when a route first returns them."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, Problem, Request, Response, Unavailable
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness


class TooBig(Problem):
    title = "Too big"


class Stock:
    """A function whose route returns, or raises, `answer`."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.answer: Any = None
        app = Function("stock")

        @app.http("GET")
        def show(_: Request) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        harness.add(app)

    def get(self, answer: Any) -> Any:
        self.answer = answer
        return self.harness.get("stock")

    def refusal(self, answer: Any) -> str:
        """Return the message in the log about an answer that is refused with 500."""
        assert self.get(answer).status == 500
        [(message, values)] = self.harness.log.errors
        assert message == "unhandled exception"
        return str(values["exception"])


@pytest.fixture
def stock(harness: Harness) -> Stock:
    return Stock(harness)


def texts() -> Iterator[Any]:
    yield b"job\n"
    yield "done\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (({"error": "none left"}, 404), "return Response(404"),
        (({"n": 1}, 404, {"ETag": "a"}), "return Response(404"),
        ({"mean": float("nan")}, "return None for NaN"),
        (Response(200, [float("inf")]), "return None for NaN"),
        (Response(200, iter(["job\n"])), "yield `bytes`"),
        (iter([{"n": 1}]), "yield `bytes`"),
        (Response(200, {}, {"Content-Disposition": 'attachment; filename="5€.csv"'}), "'Content-Disposition'"),
        (Response(200, {}, {"X Name": "a"}), "'X Name'"),
        (TooBig("Too big.", headers={"X-Unit": "€"}), "percent-encode"),
    ],
)
def test_an_answer_that_no_client_can_read_is_refused_with_what_to_write(stock: Stock, answer: Any, said: str) -> None:
    assert said in stock.refusal(answer)


def test_what_json_and_http_have_is_sent_unchanged(stock: Stock) -> None:
    assert stock.get([["a", 404]]).json == [["a", 404]]
    assert stock.get(Response(200, iter([b"a", b"b"]), {"Content-Type": "text/plain"})).body == b"ab"
    assert stock.get(Response(200, iter([]))).body == b""
    assert stock.get(Response(200, {}, {"X-Name": "é \t\xff"})).headers["X-Name"] == "é \t\xff"


def test_a_later_chunk_that_is_no_bytes_ends_the_stream(stock: Stock) -> None:
    with pytest.raises(TypeError, match="yield `bytes`"):
        _ = stock.get(Response(200, texts())).body


@pytest.mark.parametrize(
    ("seconds", "header"),
    [(3, "3"), (0.5, "1"), (5.0, "5"), (-1, "0"), (float("nan"), "0"), (float("inf"), "0"), (float("-inf"), "0")],
)
def test_retry_after_has_whole_seconds(stock: Stock, seconds: float, header: str) -> None:
    answer = stock.get(Unavailable("busy", retry_after_seconds=seconds))
    assert (answer.status, answer.headers["Retry-After"]) == (503, header)
