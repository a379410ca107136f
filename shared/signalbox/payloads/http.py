"""The answer with a large value, as the routes of its owners send it."""

from signalbox.adapters.http.json_bodies import render
from signalbox.adapters.http.responses import Response


def value_response(content: bytes, sha256: str, **address: str) -> Response:
    """Return the answer of `PayloadShown`, after the members of the owner's address.

    The value's JSON is sent as it is stored: parsed and rendered again, it would need many times its size in memory.
    """
    members = render({**address, "sha256": sha256})
    return Response(200, members[:-1] + b', "value": ' + content + b"}\n", JSON)


JSON = {"Content-Type": "application/json; charset=utf-8"}
