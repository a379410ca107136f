"""Requests check themselves, whether a function builds them from a body or the kit from its arguments."""

from collections.abc import Callable
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import BadSemaphore
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest

CALL = Call("philosophers", "eat", {"seat": 1})


def test_a_request_from_a_body_equals_the_one_that_the_kit_builds() -> None:
    body = {"continuation": {"function": "philosophers", "task": "eat", "payload": {"seat": 1}}, "lease_seconds": 5}
    assert WaitRequest.from_request(body, id="x") == WaitRequest("x", CALL, lease_seconds=5.0)
    assert SemaphoreSettings.from_request({"permits": 1, "lease_seconds": 60}) == SemaphoreSettings(1, 60.0)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: SemaphoreSettings(0, 60), "permits"),
        (lambda: SemaphoreSettings(1, 0), "lease_seconds"),
        (lambda: SemaphoreSettings(1, 60, -1), "delete_after_seconds"),
        (lambda: SemaphoreSettings(1, 60, description="not UTF-8: \ud800"), "description"),
        (lambda: WaitRequest("a/b"), "id"),
        (lambda: WaitRequest("a", permits=0), "permits"),
        (lambda: WaitRequest("a", CALL, lease_seconds=float("inf")), "lease_seconds"),
        (lambda: WaitRequest("a", CALL, deadline_seconds=1e9), "deadline_seconds"),
        (lambda: WaitRequest("a", release_on_return=True), "continuation"),
        (lambda: SignalRequest("no lease"), "lease"),
        (lambda: RenewRequest("a~1", 1e9), "lease_seconds"),
    ],
)
def test_a_request_that_the_kit_builds_is_checked_as_one_from_a_body(build: Callable[[], Any], field: str) -> None:
    with pytest.raises(BadSemaphore) as refused:
        build()
    assert refused.value.field == field


def test_a_patch_keeps_what_it_does_not_name_and_checks_what_follows() -> None:
    before = SemaphoreSettings(2, 60, 3600)

    def patched(body: dict[str, Any]) -> SemaphoreSettings:
        return SettingsPatch.from_request(body, SemaphoreSettings, BadSemaphore).applied_to(before)

    assert patched({"permits": 3}) == SemaphoreSettings(3, 60, 3600)
    assert patched({"delete_after_seconds": None}) == SemaphoreSettings(2, 60)
    with pytest.raises(BadSemaphore):
        patched({"permits": None})


def test_only_a_semaphore_with_a_description_has_one_in_its_record() -> None:
    assert "description" not in SemaphoreSettings(1, 60).to_record()
    assert SemaphoreSettings(1, 60, description="a printer").to_record()["description"] == "a printer"
