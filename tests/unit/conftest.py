"""Fixtures of unit tests of several subjects."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from signalbox.adapters import runtime, settings
from signalbox.adapters.logs import JsonLog
from signalbox.core.ports import Ports

DOMAIN = "https://api.example/"


@pytest.fixture
def ports_of_the_log() -> Iterator[None]:
    """Bind ports of which only the log works: the handlers of a test use no other."""
    unused: Any = None
    before = runtime.bind(Ports(unused, unused, unused, JsonLog(settings.settings().project)))
    yield
    runtime.bind(before)


@pytest.fixture
def behind_a_domain() -> Iterator[str]:
    """Serve the functions behind a domain, and yield its address."""
    before = settings.bind(replace(settings.settings(), base_url=DOMAIN))
    yield DOMAIN
    settings.bind(before)
