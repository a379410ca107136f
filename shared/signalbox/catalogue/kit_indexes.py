"""The indexes of single fields that the kit's Terraform files configure."""

import json
import re
from collections.abc import Iterator
from functools import cache

from signalbox.catalogue.project import KIT
from signalbox.core.records.queries import Field
from signalbox.core.records.single_field_indexes import ALL, FieldIndexes, Use

SEARCHED = re.compile(r"^    (\w+) += \[(.*)\]$", re.MULTILINE)
"""A collection and its indexed fields; its other fields have no index."""

ONE = re.compile(r'\{ collection = "(\w+)", field = "(\w+)" \}')
DOTTED = re.compile(r'"([\w.]+)"')
DOCUMENTS = "documents"

Uses = tuple[Use, ...]
Setting = tuple[tuple[str, Field], Uses]
ORDERED: Uses = ("ordered",)
CONTAINS: Uses = ("contains",)
OF_A_GROUP: Uses = ("of a group",)


@cache
def kit_indexes() -> FieldIndexes:
    """Return the settings in `infra/indexes.tf`."""
    return FieldIndexes(dict(_settings((KIT.infra / "indexes.tf").read_text("utf-8"))))


def searched_fields(text: str) -> Iterator[tuple[str, list[str]]]:
    """Iterate over the kit's collections and their indexed fields, in the text of `indexes.tf`."""
    for collection, names in SEARCHED.findall(text):
        yield collection, json.loads(f"[{names}]")


def _settings(text: str) -> Iterator[Setting]:
    for collection, fields in searched_fields(text):
        yield (collection, ALL), ()
        for field in fields:
            yield (collection, (field,)), ORDERED
    for local, uses in (("searched_everywhere", OF_A_GROUP), ("searched_as_members", CONTAINS)):
        for collection, field in ONE.findall(_line(text, local)):
            yield (collection, (field,)), uses
    of_documents = {"unindexed_document_fields": (), "searched_as_arrays": CONTAINS}
    for local, uses in of_documents.items():
        for name in DOTTED.findall(_line(text, local)):
            yield (DOCUMENTS, tuple(name.split("."))), uses


def _line(text: str, local: str) -> str:
    [line] = re.findall(rf"^  {local} += (.*)$", text, re.MULTILINE)
    return str(line)
