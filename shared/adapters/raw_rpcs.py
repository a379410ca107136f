"""What an RPC needs that passes by the methods of Google's generated clients: bytes, and the header that routes it."""

from typing import Any

from google.api_core.gapic_v1 import routing_header


def serialized(message: Any) -> bytes:
    """Return a raw message as bytes."""
    return bytes(message.SerializeToString())


def routing(field: str, value: str) -> tuple[str, str]:
    """Return the header by which Google routes a request: a field of it with its value."""
    header: tuple[str, str] = routing_header.to_grpc_metadata(((field, value),))  # type: ignore[no-untyped-call]  # google-api-core has no types here
    return header
