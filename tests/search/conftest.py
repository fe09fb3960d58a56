"""A machine made of numbers: candidates of a small kernel, their true times and a model that is wrong about them.
Must not know how the search works."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.ir.buffer import Tail, Transfer
from autotune.realizations.candidate import (
    Block,
    Buffered,
    Candidate,
    Clones,
    Compute,
    Direct,
    Inline,
    Mapping,
    Storage,
    Tile,
)
from autotune.search.encode import ChoiceMatrix, encode

Times = tuple[NDArray[np.float64], NDArray[np.float64]]

LANES = (4, 8, 16)
FACTORS = (1, 2, 4, 8)
CHAINS = (1, 2, 4, 8)
STORAGES: tuple[Storage, ...] = (Inline(), Direct(), Buffered(layout=(1,)))
TAILS = (Tail.MASK, Tail.SCALAR)
PACKS = (1, 4, 8)
VARIANTS = ("short", "long")


def every_candidate() -> list[Candidate]:
    """Every combination that a two-phase row kernel has on this machine; packed ones have no tail and gather."""
    found = []
    for lanes, factor, chains, storage, fused, pack, variant, clones in itertools.product(
        LANES, FACTORS, CHAINS, STORAGES, (False, True), PACKS, VARIANTS, Clones
    ):
        for tail in TAILS if pack == 1 else (None,):
            found.append(_candidate(lanes, factor, chains, storage, fused, pack, variant, clones, tail))
    return found


def _candidate(
    lanes: int,
    factor: int,
    chains: int,
    storage: Storage,
    fused: bool,
    pack: int,
    variant: str,
    clones: Clones,
    tail: Tail | None,
) -> Candidate:
    second = 0 if fused else 1
    mapping = Mapping(axis=1 if pack == 1 else 0, lanes=lanes)
    nests = (0,) if fused else (0, 1)
    return Candidate(
        tiles=(Tile(axis=0, block=pack),),
        mapping=((0, mapping), (1, mapping)),
        storage=((0, storage), (1, Inline())),
        nests=((0, 0), (1, second)),
        transfer=((0, Transfer.NONE if pack == 1 else Transfer.GATHER),),
        compute=(
            (0, Compute(blocks=(Block(axis=1, factor=factor),), chains=chains, variants=(("exp", variant),))),
            (1, Compute()),
        ),
        tail=tuple((nest, tail) for nest in nests) if tail is not None else (),
        packet=clones,
    )


def synthetic_machine(matrix_codes: NDArray[np.int16], seed: int, *, model_error: float) -> Times:
    """True times and the model's times of every candidate.

    Times are products of main effects and pair effects of the choices; the model knows the main effects through
    errors of `model_error` in log time, and none of the pair effects.
    """
    random = np.random.default_rng(seed)
    count, axes = matrix_codes.shape
    levels = int(matrix_codes.max()) + 1
    effects = random.normal(0.0, 0.15, (axes, levels))
    errors = random.normal(0.0, model_error, (axes, levels))
    log_time, log_model = np.zeros(count), np.zeros(count)
    for axis in range(axes):
        log_time += effects[axis, matrix_codes[:, axis]]
        log_model += (effects + errors)[axis, matrix_codes[:, axis]]
    for first, second in itertools.combinations(random.choice(axes, 5, replace=False), 2):
        pair = random.normal(0.0, 0.06, (levels, levels))
        log_time += pair[matrix_codes[:, first], matrix_codes[:, second]]
    return 1e4 * np.exp(log_time), 3e4 * np.exp(log_model)


@pytest.fixture(scope="session")
def candidates() -> list[Candidate]:
    return every_candidate()


@pytest.fixture(scope="session")
def matrix(candidates: list[Candidate]) -> ChoiceMatrix:
    return encode(candidates)


@pytest.fixture(scope="session")
def machine(matrix: ChoiceMatrix) -> Callable[..., Times]:
    """`machine(seed, model_error=…)`: true times and model times of `candidates`."""
    return lambda seed, model_error: synthetic_machine(matrix.codes, seed, model_error=model_error)
