"""Answers Terraform's calls: validates, plans, and remembers what was created, changed and destroyed.

Every answer follows from the request, the schema and what exists by now. The plan names the changes that replace a
resource; applying refuses to create what exists, as the services do.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.infra.google_provider import computed_values, service_requirements, values_read_back
from tests.infra.google_provider.argument_refusals import refusals
from tests.infra.google_provider.protocol import message
from tests.infra.google_provider.resource_values import (
    UNKNOWN,
    Block,
    Path,
    Value,
    decoded,
    empty,
    encoded,
    mark_unknown,
    schema_message,
)
from tests.infra.google_provider.service_delays import Delays, Refused

ERROR = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """What was done to a resource: ``create``, ``update`` or ``delete``; `value` is what it left, or what went."""

    verb: str
    kind: str
    value: Value


@dataclass
class Cloud:
    """What exists, by kind and id, and all that was done, in order."""

    existing: dict[tuple[str, str], Value] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    delays: Delays | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, verb: str, kind: str, value: Value) -> Refused | None:
        """Run a call that may be concurrent with others."""
        if verb != "create" or self.delays is None:
            return self.record(verb, kind, value)
        with self.delays.making(kind) as contends:
            refused = self.delays.contention() if contends else None
            return refused or self.record(verb, kind, value)

    def record(self, verb: str, kind: str, value: Value) -> Refused | None:
        """Run a call; return why it was refused, if it was."""
        with self.lock:
            while verb == "create" and kind in service_requirements.NUMBERED and (kind, value["id"]) in self.existing:
                value["id"] += "0"
            refused = self._refusal(kind, value) if verb == "create" else None
            if refused and not refused.made:
                return refused
            self.operations.append(Operation(verb, kind, value))
            if verb == "update" and self.delays:
                self.delays.updated(kind)
            if verb != "delete":
                self.existing[kind, value["id"]] = value
            elif kind not in service_requirements.SHARED_BY_DEPLOYMENTS and value.get("deletion_policy") != "ABANDON":
                del self.existing[kind, value["id"]]
                if self.delays:
                    self.delays.deleted(kind, value)
            return refused

    def drift(self, kind: str, name: str, change: Callable[[Value], object]) -> None:
        """Change a resource as a person or another program would: in place, and not by Terraform.

        Raises `KeyError` if there is no resource of this kind with this `name`.
        """
        with self.lock:
            key = next(
                (each for each, value in self.existing.items() if each[0] == kind and value.get("name") == name), None
            )
            if key is None:
                raise KeyError(f"{kind} {name}")
            change(self.existing[key])

    def _refusal(self, kind: str, value: Value) -> Refused | None:
        if (kind, value["id"]) in self.existing and kind not in service_requirements.MADE_TWICE:
            return Refused(f"googleapi: Error 409: {kind} {value['id']} already exists")
        return self.delays.refusal(kind, value) if self.delays else None


class Servicer:
    """One provider. The methods are named as the protocol names its calls."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.cloud = Cloud()
        self._project = self._region = ""

    def _block(self, request: Any) -> Block:
        known = self.schema["resources"] | self.schema["data_sources"]
        block: Block = known[request.type_name]
        return block

    def GetProviderSchema(self, _: Any) -> Any:
        return self._schema_message

    @cached_property
    def _schema_message(self) -> Any:
        entries = {
            section: [message("Entry", key=kind, value=schema_message(block)) for kind, block in blocks.items()]
            for section, blocks in self.schema.items()
            if section in ("resources", "data_sources")
        }
        return message(
            "SchemaResponse",
            provider=schema_message(self.schema["provider"]),
            provider_meta=schema_message({"attributes": {"module_name": {"type": "string", "optional": True}}}),
            resource_schemas=entries["resources"],
            data_source_schemas=entries["data_sources"],
            server_capabilities=message("Capabilities", get_provider_schema_optional=True),
        )

    def ValidateProviderConfig(self, _: Any) -> Any:
        return message("ConfigResponse")

    def ConfigureProvider(self, request: Any) -> Any:
        configuration = decoded(request.config)
        self._project, self._region = (_text(configuration.get(name)) for name in ("project", "region"))
        return message("Diagnostics")

    def ValidateResourceConfig(self, request: Any) -> Any:
        found = refusals(request.type_name, decoded(request.config), self._block(request))
        return message("Diagnostics", diagnostics=[_error(text, path) for text, path in found])

    def ValidateDataResourceConfig(self, _: Any) -> Any:
        return message("Diagnostics")

    def UpgradeResourceState(self, request: Any) -> Any:
        stored = json.loads(request.raw_state.json)
        return message("UpgradeResponse", upgraded_state=encoded(empty(self._block(request)) | stored))

    def ReadResource(self, request: Any) -> Any:
        state = decoded(request.current_state)
        found = self.cloud.existing.get((request.type_name, state["id"]))
        if found is None and request.type_name not in service_requirements.SHARED_BY_DEPLOYMENTS:
            return message("ReadResponse", new_state=encoded(None))
        return message("ReadResponse", new_state=encoded(found or state), private=request.private)

    def ImportResourceState(self, request: Any) -> Any:
        state = empty(self._block(request)) | {"id": request.id}
        imported = message("Imported", type_name=request.type_name, state=encoded(state))
        return message("ImportResponse", imported_resources=[imported])

    def PlanResourceChange(self, request: Any) -> Any:
        before, after = decoded(request.prior_state), decoded(request.proposed_new_state)
        if after is not None:
            mark_unknown(after, self._block(request))
        if before and after:
            values_read_back.kept(request.type_name, before, after)
        replaced = replaced_by(request.type_name, before, after) if before and after else []
        return message(
            "PlanResponse",
            planned_state=encoded(after),
            requires_replace=[_path((name,)) for name in replaced],
            legacy_type_system=True,  # as the real provider sets it: computed values may differ from planned ones
        )

    def ApplyResourceChange(self, request: Any) -> Any:
        before, after = decoded(request.prior_state), decoded(request.planned_state)
        if after is not None:
            computed_values.fill(request.type_name, after, self._block(request), self._project, self._region)
        verb = "delete" if after is None else "update" if before else "create"
        refused = self.cloud.asked(verb, request.type_name, after or before)
        if refused:
            left = after if refused.made and not refused.lost else before
            diagnostics = [_error(refused.text, ())] if refused.text else []
            legacy = left is not None  # the provider's library returns a state that is gone before it sets the mark
            return message("ApplyResponse", new_state=encoded(left), diagnostics=diagnostics, legacy_type_system=legacy)
        return message("ApplyResponse", new_state=encoded(after), legacy_type_system=True)

    def ReadDataSource(self, request: Any) -> Any:
        value, block = decoded(request.config), self._block(request)
        mark_unknown(value, block)
        computed_values.fill(request.type_name, value, block, self._project, self._region)
        return message("DataResponse", state=encoded(value))

    def GetFunctions(self, _: Any) -> Any:
        return message("Empty")

    def StopProvider(self, _: Any) -> Any:
        return message("Empty")


def replaced_by(kind: str, before: Value, after: Value) -> list[str]:
    """Return the arguments whose change replaces the resource."""
    changed = (name for name in service_requirements.REPLACED_BY[kind] if before.get(name) != after.get(name))
    return sorted(name for name in changed if after.get(name) != UNKNOWN or before.get(name) is None)


def _text(given: Any) -> str:
    return given if isinstance(given, str) else ""


def _error(text: str, path: Path) -> Any:
    return message("Diagnostic", severity=ERROR, summary=text, attribute=_path(path))


def _path(path: Path) -> Any:
    return message("AttributePath", steps=[_step(step) for step in path])


def _step(step: str | int) -> Any:
    return message("Step", element_key_int=step) if isinstance(step, int) else message("Step", attribute_name=step)
