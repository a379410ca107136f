"""Actions of users in the worlds of links, and checks of the writes of each."""

from __future__ import annotations

from random import Random
from typing import Any

from signalbox.core.ports import Put, Snapshot
from signalbox.documents.machine import patches
from signalbox.documents.machine.patches import Null
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import StoredDocument
from signalbox.documents.requests import UNCONDITIONAL, BulkPutRequest, PatchRequest, Precondition, PutRequest, Tags
from signalbox.documents.service import bulk, single_documents, transactions
from signalbox.documents.service import patches as documents_patches
from signalbox.documents.service.transactions import Transaction
from signalbox.documents.storage.records import Found
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.simulation.world import Violation, World
from tests.simulation.worlds.links.kinds import FIELDS, Kind
from tests.simulation.worlds.links.properties import Act, Checks, bare
from tests.simulation.worlds.links.write_backs import WriteBacks

TRANSACTION_RATE = 0.2
"""The share of actions of versatile users that are transactions."""


class Users:
    """Users who put, merge and delete, and another client; with few contents, so that contents recur."""

    def __init__(self, world: World, kind: Kind, checks: Checks, transactions: Random) -> None:
        self._world = world
        self._transactions = transactions
        self._kind = kind
        self._keys = kind.names
        self._expect = checks.expect
        self._writes_back = WriteBacks(world, kind, checks)
        self._puts = 0
        self._changes = 0

    def act(self) -> None:
        """Start one random action."""
        random = self._world.random
        if self._kind.versatile and self._transactions.random() < TRANSACTION_RATE:
            self._transact()
            return
        if self._kind.transformed and random.random() < self._kind.transform_share:
            self._change_a_transform()
            return
        key = self._keys[0] if random.random() < 0.6 else random.choice(self._keys)
        usual = (
            ("put",) * 6
            + ("delete",) * (0 if self._kind.same else 2)
            + ("write past",) * (3 if self._kind.foreign else 0)
        )
        usual += ("write back",) * (8 if self._kind.writes_back else 0)
        act = random.choice(usual + ("merge", "put if", "put many") * (4 if self._kind.versatile else 0))
        if act == "write back":
            key = random.choice([*self._keys[1:], self._keys[-1]])
            self._world.start(f"user writes back through {key}", lambda: self._writes_back.through(key))
        elif act == "put":
            self.start_put(f"user puts {key}", key)
        elif act == "merge":
            patch = self._patch(key)
            self._world.start(f"user merges {patch} into {key}", lambda: self._merge(key, patch))
        elif act == "put if":
            content = self._content(key)
            self._world.start(f"user puts {key} under a condition", lambda: self._put_if(key, content))
        elif act == "put many":
            contents = {each: self._content(each) for each in self._keys if each == key or random.random() < 0.7}
            self._world.start(f"user puts {' '.join(contents)}", lambda: self._put_many(contents))
        elif act == "delete":
            condition = Precondition(if_match=Tags(every=True)) if self._kind.large else UNCONDITIONAL
            self._world.start(f"user deletes {key}", lambda: single_documents.delete(self._world.ports, key, condition))
        else:
            content = self._content(key)
            self._world.start(f"another client on {key}", lambda: self._write_past(key, content))

    def _transact(self) -> None:
        """Put a document and put or delete another one in one transaction, after a read of one of them or of none."""
        random = self._transactions
        keys = random.sample(self._keys, 2)
        contents = {key: self._content(key) for key in keys}
        if random.random() < 0.5:
            contents.pop(keys[1])
        read = keys[: random.randint(0, 1)]

        def check(before: Snapshot, written: Content) -> None:
            if bare(written) != bare(contents[before.id]):
                raise Violation(f"{before.id} was put as {contents[before.id]} and stored as {written}")

        def code(t: Transaction) -> None:
            t.get_many(read)
            for key in keys:
                if key in contents:
                    t.put(key, contents[key])
                else:
                    t.delete(key)

        def work() -> None:
            self._expect(Act(check))
            transactions.run_transaction(self._world.ports, code, kind=Transaction)

        self._world.start(f"a transaction writes {' '.join(keys)}", work)

    def _change_a_transform(self) -> None:
        random = self._world.random
        name = "x" if self._kind.narrow or random.random() < 0.7 else "y"
        transform = random.choice(self._kind.transforms)
        ports = self._world.ports
        self._changes += 1
        if self._deletes_a_transform():
            self._world.start(f"user deletes transform {name}", lambda: service.delete(ports, name))
        else:
            put = f"user puts transform {name} {transform}"
            self._world.start(put, lambda: self._put_transform(name, transform))

    def _deletes_a_transform(self) -> bool:
        if self._kind.same:
            return False
        return self._changes % 2 == 0 if self._kind.narrow else self._world.random.random() < 0.3

    def _put_transform(self, name: str, transform: Any) -> None:
        service.put(self._world.ports, PutTransformRequest.from_request(name, transform))

    def start_put(self, name: str, key: str) -> None:
        """Start a put of a document of this kind of world."""
        content = self._content(key)
        self._world.start(f"{name} {content['n']}", lambda: self._put(key, content))

    def _content(self, key: str) -> dict[str, Any]:
        random = self._world.random
        self._puts += 1
        letter = "ab"[self._puts % 2] if self._kind.narrow and key == self._keys[0] else random.choice("ab")
        content: dict[str, Any] = {"n": letter * random.choice((1, 1, self._kind.letters_max))}
        if self._kind.chain:
            place = self._keys.index(key)
            if place and random.random() < 0.8:
                content["x"] = {"key": self._keys[place - 1]}
        elif self._kind.round:
            content["x"] = {"key": self._keys[self._keys.index(key) - 1]}
        elif key != self._keys[0] or self._kind.cyclic:
            targets = self._keys if self._kind.cyclic else self._keys[: self._keys.index(key)]
            for field in ["x"] if self._kind.narrow else random.sample(FIELDS, random.choice((0, 1, 1, 2))):
                link = {"key": random.choice(targets)}
                content[field] = link if self._kind.narrow or random.random() < 0.7 else [link, random.choice("ab")]
        return content

    def _put(self, key: str, content: dict[str, Any]) -> None:
        def check(_: Snapshot, written: Content) -> None:
            if bare(written) != bare(content):
                raise Violation(f"{key} was put as {content} and stored as {written}")

        self._world.log(f"puts {content}")
        self._expect(Act(check))
        single_documents.put(self._world.ports, PutRequest.from_request(key, content))

    def _patch(self, key: str) -> Content:
        """Return some fields only, so that what others write in other fields must stay."""
        random = self._world.random
        content = self._content(key) | {"m": f"{self._puts}"}
        return {name: content[name] for name in random.sample(sorted(content), random.randint(1, len(content)))}

    def _merge(self, key: str, patch: Content) -> None:
        def check(before: Snapshot, written: Content) -> None:
            held = model.content_of(before.data) or {}
            if bare(patches.patched(held, patch, Null.IS_A_VALUE)) != bare(written):
                raise Violation(f"a merge of {patch} into {held} wrote {written}")

        self._expect(Act(check))
        documents_patches.patch(self._world.ports, PatchRequest.from_request(key, patch))

    def _put_if(self, key: str, content: Content) -> None:
        """Read, then put if no write has happened since; the put checks that itself."""
        [found] = self._world.ports.store.read(model.path_of(key))
        seen = Found.of(found).etag

        def check(before: Snapshot, _: Content) -> None:
            if Found.of(before).etag != seen:
                raise Violation(f"{key} was put over {Found.of(before).etag}, on condition of {seen}")

        self._expect(Act(check))
        tags = Tags(frozenset([seen])) if seen else Tags(every=True)
        condition = Precondition(if_match=tags) if seen else Precondition(if_none_match=tags)
        single_documents.put(self._world.ports, PutRequest.from_request(key, content, condition))

    def _put_many(self, contents: dict[str, Content]) -> None:
        def check(before: Snapshot, written: Content) -> None:
            if bare(written) != bare(contents[before.id]):
                raise Violation(f"{before.id} was put as {contents[before.id]} and stored as {written}")

        act = self._expect(Act(check))
        bodies = [{"key": key, **content} for key, content in contents.items()]
        for loaded in bulk.put_each(self._world.ports, BulkPutRequest.from_request(bodies)):
            if isinstance(loaded.outcome, StoredDocument) and loaded.key not in act.written:
                raise Violation(f"{loaded.key} was answered as stored and is not")

    def _write_past(self, key: str, content: dict[str, Any]) -> None:
        """Another client's write: all of the record, or one field of what it holds."""

        def check(_: Snapshot, written: Content) -> None:
            if written["n"] != content["n"]:
                raise Violation(f"another client wrote {content} into {key}, and it holds {written}")

        self._expect(Act(check))
        random, store = self._world.random, self._world.store
        self._world.step(f"another client writes {key}: {content}")
        [held] = store.read(model.path_of(key))
        data = {**held.data, "n": content["n"]} if held.data is not None and random.random() < 0.5 else content
        store.commit([Put(model.path_of(key), data)])
