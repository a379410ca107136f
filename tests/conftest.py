"""What all tests share: one Firestore emulator for the whole run."""

from collections.abc import Iterator

import pytest

from infra.local import firestore_emulator as emulators


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[str]:
    """Return the ``HOST:PORT`` of an emulator. Use a project of your own instead of clearing it."""
    emulator = emulators.find()
    if emulator is None:
        pytest.skip(f"no Firestore emulator on this machine: {emulators.HOW_TO_GET_IT}")
    with emulator.start() as running:
        yield running.host
