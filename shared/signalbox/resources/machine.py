"""The changes of an item's write, the checks of its fields and references, and the refusals of callers."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from signalbox.core.problems import FieldError, InvalidFields, NotFound, PermissionDenied, Problem
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import RESOURCE_META, RESOURCE_SEPARATOR
from signalbox.resources.model import fields as resources_fields
from signalbox.resources.model.declared_models import Model
from signalbox.resources.model.items import Values, default_of, keys_in

Action = Literal["list", "read", "create", "update", "delete"]

ERRORS_MAX = 100
"""Errors in one answer: a list may have many invalid members."""


def checked(model: Model, body: Mapping[str, Any], *, is_new: bool = False) -> Values:
    """Return the fields that a request sets, as stored. Unknown and read-only fields are ignored.

    Raises `InvalidFields` with every field that is invalid or, in a new item, missing.
    """
    sent = [field for name, field in model.fields.items() if name in body and not field.is_read_only]
    wrong = [error for field in sent for error in field.errors_of(body[field.name])]
    _raise_if_any(wrong + (_missing(model, {field.name for field in sent}) if is_new else []))
    return {field.name: field.stored(body[field.name]) for field in sent}


def _missing(model: Model, names: Collection[str]) -> list[tuple[str, str]]:
    """List the required fields that a new item lacks. Read-only fields are left out, since hooks set them."""
    required = [field.name for field in model.fields.values() if field.is_required and not field.is_read_only]
    return [(name, "is required") for name in required if name not in names]


def complete(model: Model, values: Values) -> Values:
    """Return the fields of a new item, with defaults. Raises `InvalidFields` with all missing required fields."""
    _raise_if_any(_missing(model, values))
    return {name: values.get(name, default_of(field)) for name, field in model.fields.items()}


def _raise_if_any(errors: list[tuple[str, str]]) -> None:
    if errors:
        raise InvalidFields.of([FieldError(*error) for error in errors[:ERRORS_MAX]])


def check_references(model: Model, changes: Values, targets: Mapping[str, Content | None], owner: str | None) -> None:
    """Raise `InvalidFields` with all references of a request to items that do not exist or that the owner cannot see.

    `targets` are the referenced documents by key; references to other keys are not checked.
    """
    references_set = [(field, value) for name, value in changes.items() if (field := model.fields[name]).refers_to]
    keys = [(field.name, key) for field, value in references_set for key in keys_in(value) if key in targets]
    wrong = [(name, key) for name, key in keys if not _may_refer(targets[key], key, owner)]
    _raise_if_any([(name, f"refers to {resources_fields.id_of(key)!r}, which does not exist") for name, key in wrong])


def _may_refer(target: Content | None, key: str, owner: str | None) -> bool:
    meta = (target or {}).get(RESOURCE_META)
    is_item = isinstance(meta, dict) and meta.get("name") == key.partition(RESOURCE_SEPARATOR)[0]
    return target is not None and is_item and resources_fields.is_visible(target, owner)


def edited(model: Model, fields: Mapping[str, Any]) -> Values:
    """Return all fields as stored, after a hook has changed them. Raises `InvalidFields`."""
    _raise_if_any([wrong for name, field in model.fields.items() for wrong in field.errors_of(fields[name])])
    return {name: field.stored(fields[name]) for name, field in model.fields.items()}


def refusal(resource: str, action: Action, id_: Any) -> Problem:
    """Return the problem for a caller that the `authorise` hook refuses.

    An item is reported as not found, so the caller cannot learn whether it exists. Lists and creates are forbidden.
    """
    if action in ("list", "create"):
        return PermissionDenied(f"You may not {action} items of {resource}.")
    return NotFound(f"{resource} has no item {str(id_)[:100]!r}.", field="id")


def changes_between(before: Values, after: Values) -> Values:
    """Return the fields that a write changes. A reference to the same item is unchanged, whatever its copy contains."""
    return {name: value for name, value in after.items() if name not in before or not _equal(value, before[name])}


def _equal(one: Any, other: Any) -> bool:
    return one == other or bool(keys_in(one) and keys_in(one) == keys_in(other))
