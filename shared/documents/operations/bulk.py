"""Put many documents in one call, each with an outcome of its own.

Of what lies under their keys only the kit's knowledge is read; then, at one instant, what they link to, so that no copy
is older than the document it comes into. Nothing else is held in memory of what is there. Then they are written wave by
wave (`shared/rules/bulk.py`), each document under its own guard; all of a wave take one round trip. A wave embeds
what the waves before it have stored, never what they only meant to store: a copy shows nothing that was not there.

Whoever loses the guard is read again with what it links to and tries again, a bounded number of times.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Conflict, Field, Outcome, Ports, Put, Snapshot, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, TooLarge, Unavailable
from shared.documents.operations import embedding
from shared.documents.operations.documents import Stored, embed, stored_by
from shared.documents.rules import bulk, documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content

Ending = Stored | Problem | Unavailable


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of one document of a call; the key is None where none could be told."""

    key: str | None
    ending: Ending


def put_each(ports: Ports, bodies: Sequence[Any]) -> list[Loaded]:
    """Put documents, each under the key it holds; the endings are in the order of the bodies.

    A body may be the `Problem` for which it could not be read. Raises `TooLarge` for a call that brings too much.
    """
    entries = bulk.entries(bodies)
    endings = _Load(ports, {entry.key: entry.content for entry in entries if entry.key and not entry.refusal}).run()
    return [Loaded(entry.key, entry.refusal or endings[entry.key or ""]) for entry in entries]


class _Load:
    """The documents of one call on their way into the store."""

    def __init__(self, ports: Ports, contents: Mapping[str, Content]) -> None:
        self._ports = ports
        self._contents = contents
        self._targets = {key: links.link_keys(content) for key, content in contents.items()}
        self._found: dict[str, Snapshot] = {}
        self._sources: dict[str, Content | None] = {}
        self._transforms: dict[str, Any] = {}
        self._endings: dict[str, Ending] = {}

    def run(self) -> Mapping[str, Ending]:
        """Write all of them; give how each ended."""
        targets = {target for linked in self._targets.values() for target in linked}
        if len(targets) > LIMITS.bulk_targets_max:
            raise TooLarge(f"The documents of one call link to at most {LIMITS.bulk_targets_max:,} others.")
        self._read(self._contents)
        for wave in bulk.waves(self._targets):
            self._settle(wave)
        return self._endings

    def _read(self, keys: Iterable[str]) -> None:
        """Read documents and then, at one instant, what their links need.

        Only the documents themselves are guarded by it: one that is merely linked to was read with its own targets.
        """
        own = {documents.path_of(key): key for key in keys}
        needed = dict.fromkeys(path for key in own.values() for path in embedding.needs(self._contents[key]))
        replaced = self._lying([path for path in own if path not in needed], documents.KNOWLEDGE)
        filling = self._lying(needed)
        now = embedding.given(filling)
        self._found |= {own[one.path]: one for one in (*replaced, *filling) if one.path in own}
        self._sources |= now.sources
        self._transforms |= now.transforms

    def _lying(self, paths: Collection[str], fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._ports.store.read(*paths, fields=fields) if paths else ()

    def _settle(self, wave: Sequence[str]) -> None:
        """Write a wave, and those who lose their guard again."""
        losers = self._write(wave)
        for attempt in range(LIMITS.rounds_max - 1):
            if not losers:
                return
            pause(self._ports, attempt)
            self._read(losers)
            losers = self._write(losers)
        self._endings |= {key: Unavailable(f"{key} is written by many at once") for key in losers}

    def _write(self, keys: Iterable[str]) -> list[str]:
        """Write documents, each on its own; give those who lost their guard."""
        shaped = [one for key in keys if (one := self._shaped(key)) is not None]
        outcomes = self._ports.store.write_each([put for _, _, put in shaped]) if shaped else ()
        pairs = zip(shaped, outcomes, strict=True)
        return [key for (key, content, put), outcome in pairs if not self._ended(key, content, put, outcome)]

    def _shaped(self, key: str) -> tuple[str, Content, Put] | None:
        """Embed what a document links to; one that cannot be stored has ended."""
        found = self._found[key]
        linked = documents.linked_after_put(documents.decode(found.data))
        try:
            content = links.shape(key, self._contents[key], Embedding(self._sources, self._transforms))
            return key, content, embed(found, content, "put", linked=linked)
        except Problem as problem:
            self._endings[key] = problem
            return None

    def _ended(self, key: str, content: Content, put: Put, outcome: Outcome) -> bool:
        """Note how a write ended; one that lost its guard has not."""
        if isinstance(outcome, Conflict):
            return False
        if isinstance(outcome, WriteResult):
            self._sources[key] = content
            self._endings[key] = stored_by(put, content, created=self._found[key].data is None)
            return True
        assert isinstance(outcome, Problem | Unavailable), "a write has no other outcome"
        self._endings[key] = outcome
        return True
