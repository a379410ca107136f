"""Fixtures of unit tests of several subjects."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from signalbox.adapters import settings

DOMAIN = "https://api.example/"


@pytest.fixture
def behind_a_domain() -> Iterator[str]:
    """Serve the functions behind a domain, and yield its address."""
    before = settings.bind(replace(settings.settings(), base_url=DOMAIN))
    yield DOMAIN
    settings.bind(before)
