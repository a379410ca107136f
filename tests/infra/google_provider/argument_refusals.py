"""Refusals of the provider or a service that follow from the arguments of one resource."""

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from tests.infra.google_provider import service_requirements
from tests.infra.google_provider.resource_values import UNKNOWN, Block, Path, Value, attributes, blocks

Refusal = tuple[str, Path]


def refusals(kind: str, value: Value, block: Block) -> Iterator[Refusal]:
    """Report what is wrong with a resource's arguments, and where. What is unknown yet is not wrong yet."""
    for path, inner, each in blocks(value, block):
        place = ".".join(step for step in path if isinstance(step, str))
        yield from ((text, (*path, name)) for name, text in _wrong_choices(inner, each))
        yield from ((text, (*path, name)) for name, text in _wrong_names(kind, place, each))
        yield from ((text, path) for text in _wrong_company(kind, place, each))
    if kind == "google_cloudfunctions2_function":
        yield from ((text, ()) for text in _wrong_function(value))


def _wrong_choices(block: Block, value: Value) -> Iterator[tuple[str, str]]:
    for name, attribute in attributes(block).items():
        given = value.get(name)
        if "enum" in attribute and isinstance(given, str) and given not in attribute["enum"]:
            yield name, f"expected {name} to be one of {attribute['enum']}, got {given}"


def _wrong_names(kind: str, place: str, value: Value) -> Iterator[tuple[str, str]]:
    for wanted, pattern in service_requirements.NAMES.get(kind, {}).items():
        where, _, name = wanted.rpartition(".")
        given = value.get(name)
        if where == place and isinstance(given, str) and not re.fullmatch(pattern, given):
            yield name, f"{name} of {kind} must match {pattern}, got {given}"


def _wrong_company(kind: str, place: str, value: Value) -> Iterator[str]:
    exactly, at_most = (
        service_requirements.ONE_OF.get((kind, place)),
        service_requirements.AT_MOST_ONE_OF.get((kind, place)),
    )
    if exactly and len(_given(value, exactly)) != 1:
        yield f"{kind} takes exactly one of {sorted(exactly)}, got {_given(value, exactly)}"
    if at_most and len(_given(value, at_most)) > 1:
        yield f"{kind} takes at most one of {sorted(at_most)}, got {_given(value, at_most)}"


def _given(value: Value, names: frozenset[str]) -> list[str]:
    return sorted(name for name in names if value.get(name) not in (None, [], ""))


def _wrong_function(value: Value) -> Iterator[str]:
    for service in _known(value.get("service_config")):
        concurrency, cpu = service.get("max_instance_request_concurrency"), service.get("available_cpu")
        if _is_number(concurrency) and concurrency > 1 and isinstance(cpu, str) and float(cpu) < 1:
            yield f"concurrency {concurrency} needs at least one CPU, got {cpu}"
        seconds = service.get("timeout_seconds")
        if value.get("event_trigger") and _is_number(seconds) and seconds > service_requirements.EVENT_SECONDS_MAX:
            yield f"an event is handled within {service_requirements.EVENT_SECONDS_MAX} seconds, got {seconds}"


def _known(listed: Any) -> list[Value]:
    return [] if listed in (None, UNKNOWN) else listed


def _is_number(given: Any) -> TypeGuard[float]:
    return isinstance(given, int | float)
