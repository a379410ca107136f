"""The test harness with the setting, and the requests to the stand-in of its bucket."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any

from signalbox import Problem, Unavailable
from signalbox.adapters.cost_meter import metered
from signalbox.testing import Faults, Harness
from tests.expiry_policies import POLICIES
from tests.simulation.worlds.asked_payloads.model import (
    DAY,
    Refused,
)

SETTLED_SECONDS = 90
"""Longer than any program needs to come to rest."""

SETTLED_FAULTY_SECONDS = 3_600
BUCKET_FAILS_RATE = 0.1


class Kit:
    """The harness, with the setting, and the requests to its bucket."""

    def __init__(self, *, is_on: bool, faults: Faults | None = None) -> None:
        self.harness = Harness()
        self.faults = faults
        self.fails = Random(faults.seed) if faults else None
        self.is_delivering = False
        functions = self.harness.functions
        functions._catalogue = replace(functions._catalogue, payloads=is_on)
        self.requests: Counter[str] = Counter()
        bucket = self.harness.payloads
        for name in ("create", "copy", "read", "list", "delete"):
            setattr(bucket, name, self._counted(name, getattr(bucket, name)))
        self.placeholders: dict[str, Any] = {}
        self.begun = self.harness.clock.now

    def _counted(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            before = self.requests["create"]
            if self._fails():
                raise Unavailable("the request did not arrive")
            answer = request(*arguments)
            if self._fails():
                raise Unavailable("the answer was lost")
            self.requests["create"] = before  # a copy creates in the stand-in
            self.requests[name] += 1
            return answer

        return counted

    def _fails(self) -> bool:
        """Return whether a request of a delivery fails: before it is made, or after it, as if its process died."""
        return self.fails is not None and self.is_delivering and self.fails.random() < BUCKET_FAILS_RATE

    def settle(self, times: int = 1) -> None:
        """Deliver everything that becomes due."""
        self.is_delivering = True
        seconds = SETTLED_FAULTY_SECONDS if self.faults else SETTLED_SECONDS
        self.harness.travel(times * seconds, self.faults)
        self.is_delivering = False

    @property
    def now(self) -> float:
        return (self.harness.clock.now - self.begun).total_seconds()

    def forget(self) -> None:
        """Continue in another process, which has no value in memory."""
        ports = self.harness.ports
        self.harness.ports = metered(replace(ports, payloads=self.harness.payloads))

    def stored(self) -> Counter[str]:
        return Counter(sha256(content).hexdigest() for content in self.harness.payloads.contents.values())

    def sweep(self, times: int = 3) -> None:
        for _ in range(times):
            self.harness.run_schedule("sweep")
            self.harness.travel(60)

    def travel_to(self, seconds: float, every: float = 2 * DAY) -> None:
        """Let time pass, with the sweeper."""
        while self.now + every < seconds:
            self.harness.travel(every)
            self.expire()
            self.harness.run_schedule("sweep")
        self.harness.travel(max(0.0, seconds - self.now))
        self.expire()
        self.sweep()

    def expire(self) -> None:
        """Delete the records that Firestore deletes, by the policies of the database."""
        for collection in list(self.harness.store._collections):
            policy = POLICIES.get(collection.rpartition("/")[2])
            if policy is None:
                continue
            for id_ in self.harness.ids(collection):
                at = self.harness.record(f"{collection}/{id_}").get(policy.field)
                if isinstance(at, datetime) and at + policy.offset <= self.harness.clock.now:
                    self.harness.write_record(f"{collection}/{id_}", None)

    def json(self, path: str) -> Any:
        return self.harness.get(path).json


def outcome_of(call: Callable[[], object]) -> str:
    """Return the slug of the problem that a call raises."""
    try:
        call()
    except Refused as refused:
        return str(refused.args[0])
    except Problem as problem:
        return problem.slug()
    return ""


def partial_post(
    harness: Harness, path: str, body: Mapping[str, Any], answered: Callable[[Any], None] = lambda _: None
) -> Callable[[], object]:
    """Return a request that raises what it is refused for."""

    def post() -> None:
        response = harness.post(path, data=json.dumps(body), headers={"Content-Type": "application/json"})
        answered(response.json)
        if response.status >= 400:
            raise Refused(response.json["type"].rpartition(":")[2])

    return post
