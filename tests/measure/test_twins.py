"""The noise floor of the machine by a program of its own."""

from __future__ import annotations

from autotune.ir.verify import verify
from autotune.measure.noise import NoiseFloor
from autotune.measure.twins import doubling, machine_noise


def test_the_built_in_program_is_raced_against_itself() -> None:
    verify(doubling())
    found = machine_noise()
    assert isinstance(found, NoiseFloor) and found.races > 0
