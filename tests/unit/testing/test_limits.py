"""Limits are replaced by their names alone, so each name belongs to one subject."""

import pytest

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import Limits
from signalbox.critical_sections.limits import LIMITS as SECTION_LIMITS
from signalbox.testing.replaced_limits import all_limits, owners_of, replaced


class OneLimits(Limits):
    slots_max: int = 1


class OtherLimits(Limits):
    slots_max: int = 2


def test_limits_of_several_subjects_are_replaced_together_and_restored() -> None:
    before = CORE_LIMITS.rounds_max, SECTION_LIMITS.section_ids_max
    with replaced(rounds_max=2, section_ids_max=3):
        assert (CORE_LIMITS.rounds_max, SECTION_LIMITS.section_ids_max) == (2, 3)
    assert (CORE_LIMITS.rounds_max, SECTION_LIMITS.section_ids_max) == before


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(AttributeError, match="no subject has a limit `rounds`"), replaced(rounds=1):
        pass


def test_each_limit_has_one_owner() -> None:
    assert len(owners_of(all_limits())) > 150


def test_two_subjects_with_one_name_are_found_out() -> None:
    with pytest.raises(ValueError, match="OtherLimits and OneLimits both have a limit `slots_max`"):
        owners_of([OneLimits(), OtherLimits()])
