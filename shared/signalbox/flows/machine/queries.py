"""Queries: answers of a run's code about itself, at the last entry of its log. All pure.

The code registers its answers with `flow.answer`. A query replays the log up to the last entry that the code can
receive, calls the function, and drops the code. Nothing is scheduled, stored or sent: a function that acts is refused.

    if the code                                               a query
    --------------------------------------------------------  -------------------------------------------
    receives all entries of the log                           is answered
    fails at an entry                                         is answered from the entries before it
    fails at its start                                        CannotQuery
    has not answered this name up to there                    NoQuery
    answers with a function that raises a Problem             is refused with that Problem
    answers with a function that raises another error         CannotQuery
    answers with a function that creates a command, or reads  CannotQuery
    answers with a function that no request can call          CannotQuery
    answers with a value that is not JSON or too large        CannotQuery
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from typing import Any

from signalbox.core import user_code
from signalbox.core.codec.annotations import encode_unannotated
from signalbox.core.codec.json_forms import JSON, WrongValue
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import Problem
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.stuck import Stuck, failed, stored_json
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Message
from signalbox.flows.problems import CannotQuery, NoQuery
from signalbox.tasks.requests.signatures import Signature


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a run's code, from the first `entries` of its log."""

    result: Any
    entries: int


def answer(
    definition: FlowDefinition, header: FlowHeader, log: Sequence[Message], query: str, arguments: Mapping[str, Any]
) -> Answer:
    """Return the answer of a run's code. Raises the errors in the module's table, and `BadArgument`."""
    with _replayed(definition, header, log) as (driver, entries):
        if query not in driver.answers:
            known = ", ".join(sorted(driver.answers)) or "none"
            detail = f"The code has no answer to {query!r:.80} where it waits now. It answers: {known}."
            raise NoQuery(detail, field="query")
        return Answer(_answered(driver, query, arguments), entries)


def queries(definition: FlowDefinition, header: FlowHeader, log: Sequence[Message]) -> list[str]:
    """Return the names of the queries that a run answers. Raises `CannotQuery`."""
    with _replayed(definition, header, log) as (driver, _):
        return sorted(driver.answers)


@contextmanager
def _replayed(definition: FlowDefinition, header: FlowHeader, log: Sequence[Message]) -> Iterator[tuple[Driver, int]]:
    """Provide the code after the last entry that it can receive, and the number of entries that it has received."""
    driver, entries = Driver.of(definition, header), len(log)
    try:
        while (received := _receive(driver, header, log[:entries])) < entries:
            close_code(driver)
            driver, entries = Driver.of(definition, header), received
        yield driver, entries
    finally:
        close_code(driver)


def _receive(driver: Driver, header: FlowHeader, log: Sequence[Message]) -> int:
    """Apply a log, and return how many of its entries the code has received. Raises `CannotQuery`."""
    try:
        driver.start(header.start_at, log)
    except Stuck as stuck:
        raise CannotQuery(f"The code fails at its start: {stuck.detail}") from stuck
    for number, entry in enumerate(log):
        try:
            driver.apply(entry)
        except Stuck:
            return number
    return len(log)


def close_code(driver: Driver) -> None:
    with suppress(Stuck):  # of code that never ends
        driver.drop()


def _answered(driver: Driver, query: str, arguments: Mapping[str, Any]) -> Any:
    function = driver.answers[query]
    signature = _signature_of(function, query)
    bound = signature.bind(arguments, None)
    driver.answering = query
    try:
        value = _called(partial(function, **bound), query, driver.branches[0].context)
    finally:
        driver.answering = ""
    return _checked(value, signature, query)


def _signature_of(function: Callable[..., Any], query: str) -> Signature:
    """Return the signature of a function that answers a query.

    Raises `CannotQuery` if no request can call the function.
    """
    try:
        return replace(Signature.from_function(function), task=f"the query {query}")
    except Exception as error:  # an annotation may have a name that Python cannot resolve
        raise CannotQuery(
            f"The function that answers {query!r} cannot be called: {error}. Write a `lambda`."
        ) from error


def _called(code: Callable[[], Any], query: str, context: Context) -> Any:
    try:
        return user_code.run(code, context)
    except Problem:
        raise
    except Exception as error:
        raise CannotQuery(f"The query {query!r} raised {failed(user_code.raised_by(error)).detail}.") from error


def _checked(value: Any, signature: Signature, query: str) -> Any:
    """Return an answer as JSON. It is stored nowhere, so it may be as large as an answer over HTTP.

    Raises `CannotQuery`.
    """
    name, codec = f"the answer of the query {query!r}", signature.result
    try:
        written = encode_unannotated(value, name) if codec is JSON else value
        return stored_json(written, name, CORE_LIMITS.payload_bytes_max, codec)
    except WrongValue as error:
        raise CannotQuery(f"{error}.") from error
    except Stuck as stuck:
        raise CannotQuery(stuck.detail) from stuck
