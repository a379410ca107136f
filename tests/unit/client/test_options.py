"""Each option of the client is in the request that it is for, under its own name."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest

from signalbox.client import ApiError, Client, call

THEN = call("shop", "paid")

IN_QUERIES: list[tuple[Callable[[Client], object], str]] = [
    (lambda client: list(client.batches.list("open", prefix="a")), "batches?state=open&prefix=a"),
    (lambda client: list(client.rates.list(prefix="a")), "rates?prefix=a"),
    (lambda client: list(client.semaphores.list(waiting=True, prefix="a")), "semaphores?waiting=true&prefix=a"),
    (lambda client: list(client.objects("shop", "Cart").list(prefix="a")), "shop/objects/Cart?prefix=a"),
    (lambda client: list(client.flow("shop", "order").runs(newest_first=True)), "shop/flows/order?newest_first=true"),
    (lambda client: list(client.yokes.list(item="b", order_by="value")), "yokes?item=b&order_by=value"),
    (lambda client: client.yokes.delete_all(item="b"), "yokes?item=b"),
    (lambda client: list(client.standings.list("item", order_by="sum")), "standings/item?order_by=sum"),
    (
        lambda client: client.standings.rank("item", "b", order_by="sum", neighbours=1),
        "standings/item/b/rank?order_by=sum&neighbours=1",
    ),
    (lambda client: client.documents.page(limit=2, page_token="t"), "documents?limit=2&page_token=t"),  # noqa: S106  not a password
    (lambda client: client.semaphore("a").acquire(wait_seconds=1), "semaphore-wait/a?wait_seconds=1"),
    (lambda client: client.documents.merge("a", {"n": 1}, write_back=True), "documents/a?write_back=true"),
]

IN_BODIES: list[tuple[Callable[[Client], object], dict[str, Any]]] = [
    (lambda client: client.rate("a").change(per_minute=60), {"per_minute": 60}),
    (
        lambda client: client.semaphore("a").change(lease_seconds=5, delete_after_seconds=60, weights={"k": 2}),
        {"lease_seconds": 5, "delete_after_seconds": 60, "weights": {"k": 2}},
    ),
    (
        lambda client: client.semaphore("a").acquire(id="i", permits=2, lease_seconds=5),
        {"id": "i", "permits": 2, "lease_seconds": 5},
    ),
    (
        lambda client: client.flow("shop", "order").run("7").fork("8", 2, on_complete=THEN, timeout_seconds=9),
        {"id": "8", "from_entry": 2, "on_complete": THEN, "timeout_seconds": 9},
    ),
    (
        lambda client: client.flow("shop", "order").act_on_all("cancel", prefix="a", reason="r"),
        {"action": "cancel", "prefix": "a", "reason": "r"},
    ),
]


def sent(act: Callable[[Client], object]) -> httpx.Request:
    """Return the first request of a call."""
    requests: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(400, json={"type": "urn:signalbox:problem:bad-query"})

    with Client("http://127.0.0.1:1/", transport=httpx.MockTransport(refuse)) as client, suppress(ApiError):
        act(client)
    return requests[0]


@pytest.mark.parametrize(("act", "address"), IN_QUERIES, ids=[address for _, address in IN_QUERIES])
def test_an_option_of_a_read_is_a_parameter_of_its_address(act: Callable[[Client], object], address: str) -> None:
    assert str(sent(act).url) == f"http://127.0.0.1:1/{address}"


@pytest.mark.parametrize(("act", "members"), IN_BODIES, ids=[" ".join(members) for _, members in IN_BODIES])
def test_an_option_of_a_change_is_a_member_of_its_body(
    act: Callable[[Client], object], members: dict[str, Any]
) -> None:
    assert json.loads(sent(act).content) == members


def test_a_condition_of_a_restore_is_a_header() -> None:
    assert sent(lambda client: client.documents.restore("a", 3, if_match='"e"')).headers["If-Match"] == '"e"'
