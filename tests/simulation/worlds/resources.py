"""Resources whose items are created, changed, deleted and listed by two users at once, with dependents of two levels.

`notes` belong to their users, and refer to other notes, which may be deleted and created again by the other user.
`parts` are deleted with their note, and `leaves` with their part. Items of both are created under idempotency keys, and
the creation is repeated: at once while its answer is lost, late, and under the same key with another body.

In some worlds users also put plain documents, pins, that embed items or a pin, and delete notes together with a pin. So
items with and without dependents are linked, and what a cascade deletes is embedded elsewhere. In others the first note
has parts to begin with, and a request deletes fewer than there are.

Checked at every write: no dependent is deleted whose note has existed all the time since the dependent was created; no
item is created twice under one key. Checked at every answer: a creation is answered with the item that its body asked
for, and a list has only items that match by what their reader may see. Checked at rest: what a deletion found is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import Annotated, Any

from signalbox.core import json_values, outbox
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import ANYONE
from signalbox.core.kit_names import WRITERS as CHOICES
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import OtherBody, Problem
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Surveyed
from signalbox.documents.model.stamped_contents import COLLECTION
from signalbox.documents.requests import UNCONDITIONAL, Precondition, PutRequest, Tags
from signalbox.documents.service import single_documents
from signalbox.documents.service.single_documents import Receipt
from signalbox.links import tasks
from signalbox.links.service import refreshes
from signalbox.resources import machine, service
from signalbox.resources.model.declared_models import Model
from signalbox.resources.model.fields import RefersTo, key_of, made_id
from signalbox.resources.model.items import Item, Resource, Values
from signalbox.resources.problems import ItemDeleted
from signalbox.resources.requests import ListRequest, conditions_of
from signalbox.resources.service import ItemWrite, StoredItem
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import DELETIONS_REFUSED, DEPENDENTS_DELETED, LISTED_BY_COPIES, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max


class _Note:
    text: str = ""
    other: Annotated[str, RefersTo("notes")] | None = None


class _Part:
    text: str
    of: Annotated[str, RefersTo("notes", on_delete="cascade")]


class _Leaf:
    text: str
    of: Annotated[str, RefersTo("parts", on_delete="cascade")]


NOTES = Resource("notes", Model.from_class(_Note), owned=True)
PARTS = Resource("parts", Model.from_class(_Part), owned=True)
LEAVES = Resource("leaves", Model.from_class(_Leaf), owned=True)

USERS, IDS, WORDS = ("ann", "ben"), ("x", "y"), ("red", "blue")
OPERATIONS_MAX = 9
CASCADES = (1, 2, 10)
"""Dependents that a request or a task deletes here. They are read one by one if these are more than any item has."""

PARTS_RATE, PARTS_MAX = 0.4, 4
"""The share of worlds whose first note has parts to begin with, and how many."""

REPEATS_MAX = 6

PINS = ("pin", "tack")
PINS_RATE, PIN_RATE, ALSO_RATE = 0.5, 0.25, 0.5
"""The share of worlds with pins; there, that of acts that put one, and that of deletions that delete one too."""

OWNER_RATE = 0.8
"""The share of acts whose user is the last known owner of the note."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    ResourcesWorld(seed, trace).run()


@dataclass(frozen=True, slots=True)
class Creation:
    """A POST: of an item of `resource` that refers to `of`, under an idempotency key of its user."""

    resource: Resource
    owner: str
    key: str
    text: str
    of: str

    @property
    def operation(self) -> str:
        """The name of the operation, as the routes derive it."""
        return name_of("item", self.resource.name, self.owner, self.key)

    @property
    def id(self) -> str:
        return made_id(self.operation)


class ResourcesWorld:
    """Two users, two ids of notes, and what depends on them."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.05, lose_answer=0.08, kill=0.05, duplicate=0.05, left=6)
        self.world = World(seed, rates, trace)
        self.writers = Random(f"{seed}-writers").choice(CHOICES)
        self.world.events.handler = refreshes.fan_out if self.writers == ANYONE else None
        self.world.task_handlers["link_refresh"] = _refresh
        self.world.observers.append(self._check_write)
        self.existing_since: dict[str, datetime] = {}
        self.begun: dict[str, list[datetime]] = defaultdict(list)
        self.deleted: dict[str, datetime] = {}
        self.etags: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.created: Counter[str] = Counter()
        self.posted: list[Creation] = []
        self.sent: dict[str, set[str]] = defaultdict(set)
        self.pins = Random(f"{seed}-pins")
        self.has_pins = self.pins.random() < PINS_RATE
        cascade = self.pins.choice(CASCADES)
        self.limits = {
            "cascade_documents_max": cascade,
            "cascade_page_documents_max": 1 if cascade > PARTS_MAX else cascade,
        }
        self.parts = self.pins.randint(1, PARTS_MAX) if self.pins.random() < PARTS_RATE else 0

    def run(self) -> None:
        with WRITERS.replaced(self.writers), replaced(**self.limits):
            random = self.world.random
            first = random.choice(USERS)
            self._put(first, IDS[0], None)
            self.world.run()
            self._put(random.choice((first, first, *USERS)), IDS[1], random.choice((None, *IDS[:1] * 3)))
            self.world.run()
            for _ in range(self.parts):
                self._post(first, PARTS, IDS[0])
            self.world.run()
            acts = random.randint(3, operations_max(OPERATIONS_MAX))
            self.world.run([self._act] * acts)
            self.world.pass_an_outage()
            self.world.run([self._act] * random.randint(0, acts))
            self.world.fault_rates.left = 0
            while self.world.store.query(Query(outbox.COLLECTION)):
                self.world.pass_time(CORE_LIMITS.outbox_patience_seconds + 1)
                self.world.start("sweep", lambda: _sweep(self.world.ports))
                self.world.run()
            self._check_rest()
            for user in USERS:
                for text in WORDS:
                    self._check_list(user, text)

    # --- users ---

    def _act(self) -> None:
        random = self.world.random
        if self.has_pins and self.pins.random() < PIN_RATE:
            self._pin()
            return
        user, id_ = random.choice(USERS), random.choice(IDS)
        if random.random() < OWNER_RATE:
            user = self.owners.get(key_of(NOTES.name, id_), user)
        acts: list[Callable[[], None]] = [
            partial(self._put, user, id_, random.choice((None, *IDS))),
            partial(self._put, user, id_, random.choice(IDS)),
            partial(self._post, user, PARTS, id_),
            partial(self._post, user, PARTS, id_),
            partial(self._post_leaf, user),
            self._post_again,
            partial(self._delete, user, NOTES, id_),
            partial(self._delete, user, NOTES, id_),
            partial(self._delete_part, user),
            partial(self._list, user),
            partial(self._list, user),
        ]
        random.choice(acts)()

    def _pin(self) -> None:
        items = [key_of(NOTES.name, id_) for id_ in IDS] + [self._key(creation) for creation in self.posted]
        pin, item = self.pins.choice(PINS), self.pins.choice([*items, PINS[0]])
        content = {"text": self.pins.choice(WORDS), "of": {"key": item}}
        request = PutRequest.from_request(pin, content)

        def work() -> None:
            single_documents.put(self.world.ports, request)

        self.world.start(f"{pin} is put on {item}", work)

    def _put(self, user: str, id_: str, other: str | None) -> None:
        sent = machine.checked(NOTES.model, {"text": self.world.random.choice(WORDS), "other": other})

        def change(before: Item | None) -> Values:
            return machine.complete(NOTES.model, sent) if before is None else {**before.values, **sent}

        def work() -> None:
            self._keep(service.write_item(self.world.ports, ItemWrite(NOTES, id_, user, sent, change)), NOTES)

        self.world.start(f"{user} puts {id_}", work)

    def _post_leaf(self, user: str) -> None:
        parts = [creation.id for creation in self.posted if creation.resource is PARTS and creation.owner == user]
        if parts:
            self._post(user, LEAVES, self.world.random.choice(parts))

    def _post(self, user: str, resource: Resource, of: str) -> None:
        creation = Creation(resource, user, f"key {len(self.posted)}", self.world.random.choice(WORDS), of)
        self.posted.append(creation)
        self._send(creation, REPEATS_MAX)

    def _post_again(self) -> None:
        """Repeat a creation late, with its body or another one."""
        if not self.posted:
            return
        one, text = self.world.random.choice(self.posted), self.world.random.choice(WORDS)
        self._send(Creation(one.resource, one.owner, one.key, text, one.of), 0)

    def _send(self, creation: Creation, repeats: int) -> None:
        body = {"text": creation.text, "of": creation.of}
        self.sent[creation.key].add(creation.text)

        def work() -> None:
            fields = creation.resource.model
            sent = machine.checked(fields, body, is_new=True)
            receipt = Receipt(creation.operation, name_of("body", creation.text, creation.of))

            def change(before: Item | None) -> Values | None:
                return None if before is not None else machine.complete(fields, sent)

            wanted = ItemWrite(creation.resource, creation.id, creation.owner, sent, change, receipt=receipt)
            stored = service.write_item(self.world.ports, wanted)
            if stored.item.values["text"] != creation.text:
                raise Violation(f"a creation of {creation.text} was answered with {dict(stored.item.values)}")
            self._keep(stored, creation.resource)

        def answered() -> None:
            try:
                work()
            except ItemDeleted:
                if not self.created[self._key(creation)]:
                    raise Violation("an item that was never created is answered as deleted") from None
                raise
            except OtherBody:
                if self.sent[creation.key] == {creation.text}:
                    raise Violation("a repeat with the same body was refused") from None
                raise

        def ended(done: bool) -> None:
            if not done and repeats:
                self._send(creation, repeats - 1)

        self.world.start(f"{creation.owner} posts {creation.resource.name} {creation.key}", answered, ended)

    @staticmethod
    def _key(creation: Creation) -> str:
        return key_of(creation.resource.name, creation.id)

    def _keep(self, stored: StoredItem, resource: Resource) -> None:
        key = key_of(resource.name, stored.item.id)
        self.etags[key], self.owners[key] = stored.etag, stored.item.owner or ""

    def _delete_part(self, user: str) -> None:
        parts = [creation.id for creation in self.posted if creation.resource is PARTS and creation.owner == user]
        if parts:
            self._delete(user, PARTS, self.world.random.choice(parts))

    def _delete(self, user: str, resource: Resource, id_: str) -> None:
        """Delete an item, perhaps under the condition that it is as its user has last seen it."""
        key = key_of(resource.name, id_)
        etag = self.etags.get(key)
        condition = UNCONDITIONAL
        if etag and self.world.random.random() < 0.5:
            condition = Precondition(if_match=Tags(frozenset([etag]), frozenset(), False))
        began = self.world.now()
        also = self.pins.sample(PINS, 1) if self.has_pins and self.pins.random() < ALSO_RATE else []

        def work() -> None:
            self.begun[key].append(began)
            try:
                service.delete_item(self.world.ports, resource, id_, user, condition, lambda _: also)
            except Problem:
                REACHED[DELETIONS_REFUSED] += 1
                raise

        self.world.start(f"{user} deletes {key}", work)

    def _list(self, user: str) -> None:
        """List the notes that refer to a note with a text, or all of them by the text of what they refer to."""
        text = self.world.random.choice(WORDS)
        self.world.start(f"{user} lists", lambda: self._check_list(user, text, self.world.ports))

    def _check_list(self, user: str, text: str, ports: Ports | None = None) -> None:
        parameters = {"other.text": [text], "_limit": ["100"]}
        request = ListRequest.from_request(NOTES, parameters, conditions_of(NOTES, user, ()), user)
        page = service.list_items(ports or self.world.reliable_ports(), NOTES, request)
        REACHED[LISTED_BY_COPIES] += len(page.items)
        shown = [item.values["other"] for item in page.items]
        if any(not _may_see(copy, user) or copy.get("text") != text for copy in shown):
            raise Violation(f"{user} finds {shown} by the text {text}")
        if page.total != len(page.items):
            raise Violation(f"{user} is answered {len(page.items)} of {page.total} items")

    # --- what must hold ---

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        collection, _, key = path.partition("/")
        if collection != COLLECTION:
            return
        if before.data is None and after.data is not None:
            self.existing_since[key] = self.world.now()
            self.created[key] += key.startswith((f"{PARTS.name}~", f"{LEAVES.name}~"))
            if self.created[key] > 1:
                raise Violation(f"{key} was created twice under one idempotency key")
        if before.data is not None and after.data is None:
            self.owners.pop(key, None)
            self._check_deleted(key, before.data)

    def _check_deleted(self, key: str, content: Any) -> None:
        """Check that a deleted dependent was deleted by its user, or that what it depends on was absent meanwhile."""
        since = self.existing_since.pop(key)
        found_at = [self.deleted[target] for target in model.goes_with(content) if target in self.deleted]
        self.deleted[key] = min([*self.begun[key], *found_at], default=self.world.now())
        for target in model.goes_with(content):
            REACHED[DEPENDENTS_DELETED] += not self.begun[key]
            existing_since = self.existing_since.get(target)
            if not self.begun[key] and existing_since is not None and existing_since < since:
                raise Violation(f"{key} was deleted, and {target}, on which it depends, was not")

    def _is_late(self, created: datetime | None, target: str) -> bool:
        """Return whether a dependent may remain: the last release leaves what is created during a deletion."""
        found_at = self.deleted.get(target)
        if self.world.versions is None or found_at is None or created is None:
            return False
        return created >= found_at

    def _check_rest(self) -> None:
        records = self.world.store.query(Query(COLLECTION, limit=1_000))
        contents = {record.id: model.content_of(record.data) or {} for record in records}
        created = {record.id: record.create_time for record in records}
        for key, content in contents.items():
            for target in model.goes_with(content):
                if target not in contents and not self._is_late(created[key], target):
                    raise Violation(f"{key} is left, and {target}, on which it depends, was deleted")
            embedding = Embedding({target: contents.get(target) for target in Surveyed(content).link_keys})
            expected = links.embed_links(key, Surveyed(content), embedding).content
            if not json_values.same(expected, content):
                raise Violation(f"{key} shows {content}, a put now would embed {expected}")


def _may_see(copy: Any, user: str) -> bool:
    return isinstance(copy, dict) and copy.get("_resource", {}).get("owner") in (None, user)


def _refresh(ports: Ports, effect: Effect) -> None:
    tasks.run_link_task(ports, effect.task, effect.payload)


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
