"""URL paths: patterns of routes, and the segments of a request's path that they match.

Paths are split at slashes first, then percent-decoded exactly once. So a key that contains ``%2F`` stays one segment.
WSGI passes a decoded path; servers add the raw one, which is used if both are the same path.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from signalbox.core.problems import BadKey

Segments = tuple[str, ...]
"""The parts of a path between its slashes."""


def segments_of_pattern(pattern: str) -> Segments:
    """Split a pattern: ``/{key}/versions`` is ``{key}`` and ``versions``; ``/`` is the collection, without segments.

    Raises `ValueError` for a pattern that does not begin with a slash.
    """
    if not pattern.startswith("/"):
        raise ValueError(f'a pattern begins with a slash: write "/{pattern}" instead of "{pattern}"')
    return tuple(pattern[1:].split("/")) if pattern != "/" else ()


def match(pattern: Segments, segments: Segments) -> dict[str, str] | None:
    """Return the values of a pattern's ``{names}``, or None if `segments` differ. An empty segment matches no name."""
    if len(pattern) != len(segments):
        return None
    parameters = {}
    for part, segment in zip(pattern, segments, strict=True):
        if part.startswith("{") and segment:
            parameters[part[1:-1]] = segment
        elif part != segment:
            return None
    return parameters


def segments_of(environ: Mapping[str, Any]) -> Segments:
    """Return the decoded segments of a WSGI request's path below its mount. Raises `BadKey` if they are not UTF-8."""
    raw = _raw_segments(environ)
    if raw == [""]:
        return ()
    try:
        return tuple(unquote(segment, errors="strict") for segment in raw)
    except UnicodeDecodeError as error:
        raise BadKey("The path is not percent-encoded UTF-8.") from error


def _raw_segments(environ: Mapping[str, Any]) -> list[str]:
    path = str(environ.get("PATH_INFO", "")).encode("latin-1")
    mount = str(environ.get("SCRIPT_NAME", "")).count("/")
    raw = _raw_path(environ).split("/")[1 + mount :] or [""]
    if unquote_to_bytes("/".join(raw)) == path[1:]:
        return raw
    # A proxy or the framework has rewritten the path: only the decoded path is known.
    return [quote_from_bytes(segment) for segment in path[1:].split(b"/")]


def _raw_path(environ: Mapping[str, Any]) -> str:
    target = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or "")
    # A target may be an absolute URL (RFC 9112, absolute-form); one that begins with "//" is still a path.
    return target.partition("?")[0] if target.startswith("/") else urlsplit(target).path
