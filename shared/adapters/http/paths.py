"""Paths of addresses: cut at slashes first, percent-decoded afterwards, exactly once.

So a key that contains ``%2F`` stays one segment. WSGI hands over a path that is decoded already; servers pass the raw
one beside it, which counts where both say the same.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from shared.core.rules.problems import BadKey

Segments = tuple[str, ...]


def segments_of_pattern(pattern: str) -> Segments:
    """Cut a pattern: ``/{key}/versions`` is ``{key}`` and ``versions``; ``/`` is the collection, without segments."""
    return tuple(pattern[1:].split("/")) if pattern != "/" else ()


def match(pattern: Segments, segments: Segments) -> dict[str, str] | None:
    """Fit segments to a pattern; answers the values of its ``{names}``, or None. An empty segment fits no name."""
    if len(pattern) != len(segments):
        return None
    parameters = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{") and given:
            parameters[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return parameters


def segments_of(environ: Mapping[str, Any]) -> Segments:
    """Give the decoded segments of a WSGI request's path behind its mount. Raises `BadKey` if they are not UTF-8."""
    raw = _raw_segments(environ)
    if raw == [""]:
        return ()
    try:
        return tuple(unquote(segment, errors="strict") for segment in raw)
    except UnicodeDecodeError as error:
        raise BadKey("The path is not percent-encoded UTF-8") from error


def _raw_segments(environ: Mapping[str, Any]) -> list[str]:
    path = str(environ.get("PATH_INFO", "")).encode("latin-1")
    mount = str(environ.get("SCRIPT_NAME", "")).count("/")
    raw = _raw_path(environ).split("/")[1 + mount :] or [""]
    if unquote_to_bytes("/".join(raw)) == path[1:]:
        return raw
    # Something between server and function has rewritten the path: only the decoded one is left to go by.
    return [quote_from_bytes(segment) for segment in path[1:].split(b"/")]


def _raw_path(environ: Mapping[str, Any]) -> str:
    target = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or "")
    # A target may be a whole address (RFC 9112, absolute-form); one that begins with "//" is a path all the same.
    return target.partition("?")[0] if target.startswith("/") else urlsplit(target).path
