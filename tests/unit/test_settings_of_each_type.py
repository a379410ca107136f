"""Each setting is kept wherever it goes: requests, records, answers, the catalogue and the clients.

The fields are enumerated, and their values follow from their schemas, so a new field that is forgotten somewhere fails.
"""

import asyncio
import inspect
import json
import re
import typing
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.http.description import Schemas
from signalbox.adapters.http.json_bodies import shown_members
from signalbox.batches import api as batches_api
from signalbox.batches.model.settings import NAMES
from signalbox.batches.requests import BatchFollowing, BatchSpec
from signalbox.batches.service import population
from signalbox.batches.storage import read_header
from signalbox.catalogue import entries
from signalbox.client.aio import rates as rates_client
from signalbox.client.aio import semaphores as semaphores_client
from signalbox.client.answers import Answer
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.rates import api as rates_api
from signalbox.rates.model import Rate, RateSettings
from signalbox.semaphores import api as semaphores_api
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

DOCS = Path(__file__).parents[2] / "docs"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

KINDS: dict[Any, str] = {SemaphoreSettings: "semaphores", RateSettings: "rates"}
"""The types of settings, each with the function that stores them."""

EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
EACH_FIELD = pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, field.name) for kind in KINDS for field in fields(kind)],
    ids=lambda part: getattr(part, "__name__", part),
)


def values_of(kind: Any, *, nearer: int = 1) -> dict[str, Any]:
    """Return a valid value of each field, which is not its default."""
    schemas = Schemas()
    schema = schemas.resolved(schemas.of(kind, "body"))
    return {name: value_of(part, nearer) for name, part in schema["properties"].items()}


def value_of(schema: dict[str, Any], nearer: int) -> Any:
    """Return a value near the upper bound of a schema."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    match kinds[0]:
        case "integer" | "number":
            return schema["maximum"] - nearer
        case "object":
            return {"one": value_of(schema["additionalProperties"], nearer)}
        case "string":
            return "x" * (schema.get("maxLength", 10) - nearer)
        case "array":
            return [value_of(schema["items"], nearer)]
    raise AssertionError(f"add a value for {kinds}")


def stored(kind: Any, settings: Any) -> Any:
    """Return the settings of a record."""
    if kind is SemaphoreSettings:
        return Semaphore.from_record(Semaphore(settings).to_record(NOW)).settings
    return Rate.from_record(Rate(settings).to_record()).settings


@EACH_KIND
def test_a_record_keeps_every_setting(kind: Any) -> None:
    settings = kind.from_request(values_of(kind))
    assert stored(kind, settings) == settings


@EACH_FIELD
def test_a_put_and_a_patch_of_another_field_keep_a_setting(harness: Harness, kind: Any, name: str) -> None:
    values, others = values_of(kind), values_of(kind, nearer=2)
    at = f"{KINDS[kind]}/a"
    assert harness.put(at, json=values).status == 201
    assert harness.get(at).json[name] == values[name]
    for other in values.keys() - {name}:
        assert harness.patch(at, json={other: others[other]}).status == 200
    assert harness.get(at).json[name] == values[name]
    assert harness.put(at, json=values | {name: others[name]}).json[name] == others[name]
    assert harness.patch(at, json={name: values[name]}).json[name] == values[name]


@EACH_FIELD
def test_a_patch_changes_one_setting(kind: Any, name: str) -> None:
    before, others = kind.from_request(values_of(kind)), values_of(kind, nearer=2)
    patch: SettingsPatch[Any] = SettingsPatch({name: others[name]})
    assert patch.applied_to(before) == replace(before, **{name: others[name]})


@EACH_KIND
def test_the_catalogue_declares_every_setting(kind: Any) -> None:
    entry = entries.Semaphore if kind is SemaphoreSettings else entries.Rate
    values = values_of(kind)
    declared = entry(name="a", **values)
    assert declared.settings == kind.from_request(values)
    assert declared.body == values


@EACH_FIELD
def test_a_value_over_its_bound_is_refused_by_the_name_of_its_setting(harness: Harness, kind: Any, name: str) -> None:
    over = values_of(kind, nearer=-1)
    answer = harness.put(f"{KINDS[kind]}/a", json=values_of(kind) | {name: over[name]})
    assert (answer.status, answer.json["field"]) == (400, name)
    assert harness.get(f"{KINDS[kind]}/a").status == 404


# --- functions that set settings ---


@pytest.mark.parametrize(
    ("kind", "door"),
    [(SemaphoreSettings, semaphores_api.Semaphore), (RateSettings, rates_api.Rate)],
    ids=["semaphore", "rate"],
)
def test_code_sets_every_setting(harness: Harness, kind: Any, door: Callable[[str], Any]) -> None:
    values = values_of(kind)
    door("a").ensure(**values)
    shown = harness.get(f"{KINDS[kind]}/a").json
    assert {name: shown[name] for name in values} == values


class Kept:
    """A transport that keeps the body of a request."""

    body: Any = None

    async def send(self, *_: object, body: object) -> Answer:
        self.body = body
        return Answer("", 200, {})


CLIENTS: dict[Any, Any] = {SemaphoreSettings: semaphores_client.Semaphore, RateSettings: rates_client.Rate}
"""The classes of the client that set settings, with `ensure` and `change`."""


@EACH_KIND
@pytest.mark.parametrize("call", ["ensure", "change"])
def test_a_client_sends_every_setting(kind: Any, call: str) -> None:
    kept, values = Kept(), values_of(kind)
    asyncio.run(getattr(CLIENTS[kind](kept, "a"), call)(**values))
    assert kept.body == values


@EACH_KIND
def test_a_client_changes_no_setting_that_is_not_given(kind: Any) -> None:
    for name, value in values_of(kind).items():
        kept = Kept()
        asyncio.run(CLIENTS[kind](kept, "a").change(**{name: value}))
        assert kept.body == {name: value}


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[1:]


@pytest.mark.parametrize(
    ("page", "function"),
    [("semaphores", semaphores_api.Semaphore.ensure), ("rates", rates_api.Rate.ensure)],
    ids=["semaphores", "rates"],
)
def test_a_page_lists_every_setting_with_its_default(page: str, function: Callable[..., Any]) -> None:
    wanted = ", ".join(map(written, parameters(function)))
    assert re.findall(r"^\| `ensure\((.*?)\)`", (DOCS / f"{page}.md").read_text("utf-8"), re.MULTILINE) == [wanted]


def written(parameter: inspect.Parameter) -> str:
    """Return a parameter as pages write it."""
    default = parameter.default
    if default is parameter.empty:
        return parameter.name
    text = f"{default:g}" if isinstance(default, float) else json.dumps(default) if default == "" else repr(default)
    return f"{parameter.name}={text}"


def test_members_of_an_answer_are_its_fields_without_defaults() -> None:
    assert shown_members(RateSettings(9)) == {"per_minute": 9.0}


# --- batches, which have settings from their start ---

CALL = {"function": "quilt", "task": "paint", "payload": {"row": 1}}

EACH_OF_A_BATCH = pytest.mark.parametrize("name", [field.name for field in fields(BatchFollowing)])


def batch_with(name: str) -> dict[str, Any]:
    """Return a body that sets a field of a batch to a valid value, which is not its default, and what that requires."""
    schemas = Schemas()
    schema = schemas.resolved(schemas.of(BatchFollowing, "body"))["properties"][name]
    match schema:
        case {"anyOf": [{"$ref": "#/components/schemas/Call"}, _]}:
            value: Any = CALL
        case {"anyOf": [{"$ref": _}, _]}:
            value = {"units": [1]}
        case {"anyOf": [{"anyOf": [kind, _], "maximum": most}, _]}:
            value = value_of({**kind, "maximum": most}, nearer=1)
        case _:
            value = [{"n": 1}] if name == "units" else value_of(schema, nearer=1)
    return {"task": CALL, "units": [{"n": 0}], name: value} | ({"rate": "belt"} if name == "weight" else {})


@EACH_OF_A_BATCH
def test_a_batch_keeps_each_setting(harness: Harness, name: str) -> None:
    spec = BatchSpec.from_request(batch_with(name))
    population.populate(harness.ports, "b", spec)
    _, header = read_header(harness.ports, "b")
    assert getattr(spec, name) != getattr(BatchSpec(), name)
    if name in NAMES:
        assert getattr(header.settings, name) == getattr(spec, name)
    assert header.settings == spec.kept
    without = BatchSpec.from_request({"task": CALL | {"task": "draw"} if name == "task" else CALL, "units": [{"n": 0}]})
    assert header.digest == spec.digest() != without.digest()


@EACH_OF_A_BATCH
def test_a_batch_that_follows_keeps_each_setting(harness: Harness, name: str) -> None:
    spec = BatchSpec.from_request({"then": batch_with(name)})
    population.populate(harness.ports, "b", spec)
    assert BatchFollowing.from_then(read_header(harness.ports, "b")[1].then) == spec.then


def test_a_function_populates_batches_with_every_setting() -> None:
    settings = {field.name for field in fields(BatchFollowing)} - {"units", "task"}
    assert set(batches_api.BatchOptions.__annotations__) == settings
    for door in (batches_api.Batch.populate, batches_api.sub_batch):
        assert typing.get_type_hints(door)["options"] == typing.Unpack[batches_api.BatchOptions]
