"""Raw RPCs, without the methods of Google's generated clients: serialization, and the header that routes a request."""

from typing import Any

from google.api_core.gapic_v1 import routing_header


def serialized(message: Any) -> bytes:
    """Return a raw message as bytes."""
    return bytes(message.SerializeToString())


def routing(field: str, value: str) -> tuple[str, str]:
    """Return the header by which Google routes a request: the name and value of one of its fields."""
    header: tuple[str, str] = routing_header.to_grpc_metadata(((field, value),))
    return header
