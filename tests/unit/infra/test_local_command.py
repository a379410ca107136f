"""The variables of `make dev`: what cannot be meant is refused with what to write, before anything starts."""

import pytest

from signalbox_infra.local.__main__ import main


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "80000", "PORT must be a number from 1 to 65535, not '80000'"),
        ("PORT", "eighty", "PORT must be a number"),
        ("CHAOS", "twice=2", "CHAOS is 'twice=2': twice is a probability from 0 to 1"),
        ("CHAOS", "twice=often", "CHAOS is 'twice=often'"),
        ("SIGNALBOX_STORE", "redis", "SIGNALBOX_STORE is 'redis': set it to embedded"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    assert main() == 2
    assert said in capsys.readouterr().err
