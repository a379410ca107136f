"""The errors of calls. The classes follow the status; the problem's own name is in `ApiError.slug`."""

from collections.abc import Mapping
from typing import Any

TYPE_PREFIX = "urn:signalbox:problem:"


class ApiError(Exception):
    """An unsuccessful answer, or none at all.

    - ``status``: of HTTP; 0 without an answer.
    - ``slug``: the last part of the problem's type, such as ``bad-key``; empty for an answer of the platform.
    - ``title``, ``detail``: what is wrong, and what to change. ``field``: the part of the request that is wrong.
    - ``problem``: all fields of the answer.
    - ``is_repeated``: whether an earlier attempt of this call had no answer; then that attempt may have had its effect.
    """

    is_repeated = False

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        self.slug, self.title, self.detail = (_text(problem, name) for name in ("type", "title", "detail"))
        self.field: str | None = problem.get("field")
        super().__init__(": ".join(filter(None, [f"{status} {self.slug or self.title}".strip(), self.detail])))


def _text(problem: Mapping[str, Any], name: str) -> str:
    """Return a field as text: empty if it is absent or null."""
    found = problem.get(name)
    return "" if found is None else str(found).removeprefix(TYPE_PREFIX)


class NotFound(ApiError):
    """404 or 410: there is no such record, or no longer."""


class Conflict(ApiError):
    """409: the state, or an earlier call under the same id, does not allow it."""


class PreconditionFailed(ApiError):
    """412: the document has another ETag. If the call ``is_repeated``, an earlier attempt may have made the change."""


class Unavailable(ApiError):
    """429, 502 to 504, or no answer, until the time for retries had passed. The call may have had its effect."""


class CallFailed(ApiError):
    """The method of an object, or the run of a flow, ended with this problem."""


class LeaseLost(Exception):
    """A lease ended before it was released: another holder may have the permit."""


KINDS: Mapping[int, type[ApiError]] = {
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: PreconditionFailed,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, problem: Mapping[str, Any]) -> ApiError:
    """Return the error of an answer."""
    return KINDS.get(status, ApiError)(status, problem)
