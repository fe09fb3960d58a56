"""A program under some blocks gives what the program gives; what the blocks decide is gone from it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from autotune.ir.affine import Coord, Quotient
from autotune.ir.interpret import interpret
from autotune.ir.program import AxisKind, Elementwise, For, Load, Program, Scalar, Tensor, statements
from autotune.ir.specialize import specialize
from autotune.ir.types import COMPARISONS
from autotune.ir.verify import verify
from autotune.language.kernel import Kernel
from autotune.language.load import load_kernels

ROOT = Path(__file__).resolve().parents[2]
ATTENTION = (
    {"B": 1, "Hq": 4, "Hkv": 2, "Q": 5, "K": 13, "D": 3, "Dv": 2},
    {"B": 2, "Hq": 6, "Hkv": 1, "Q": 1, "K": 7, "D": 2, "Dv": 5},
    {"B": 1, "Hq": 2, "Hkv": 2, "Q": 8, "K": 8, "D": 1, "Dv": 1},
)
CASES = (
    *(("attention", sizes) for sizes in ATTENTION),
    *((name, ATTENTION[0]) for name in ("attention_full", "attention_bias")),
    ("matmul", {"M": 5, "K": 7, "N": 3}),
    ("matmul", {"M": 1, "K": 1, "N": 1}),
    ("matmul", {"M": 4, "K": 0, "N": 3}),
    ("matmul_bt", {"M": 4, "K": 9, "N": 6}),
    ("gemv", {"M": 7, "K": 10}),
    ("linear_gelu", {"M": 3, "K": 5, "N": 4}),
    ("mlp", {"M": 3, "D": 4, "H": 6}),
    ("qk_norm_rope", {"H": 2, "S": 3, "D": 6}),
    ("softmax", {"M": 3, "N": 7}),
)
SIZES = (1, 2, 3, 4, 8, 64)


def bound(name: str, sizes: dict[str, int]) -> tuple[Kernel, Program]:
    (kernel,) = load_kernels(str(ROOT / "examples" / f"{name}.py")).values()
    return kernel, kernel.bind(**sizes)


def arguments(program: Program) -> dict[str, object]:
    rng = np.random.default_rng(4)
    found: dict[str, object] = {}
    for parameter in program.parameters:
        if isinstance(parameter, Scalar):
            found[parameter.name] = 0.25
        elif isinstance(parameter, Tensor):
            shape = tuple(extent.constant for extent in parameter.shape)
            random = rng.standard_normal(shape).astype(np.float32)
            found[parameter.name] = rng.random(shape) < 0.7 if parameter.dtype.value == "bool_" else random
    return found


def choices(program: Program) -> list[dict[int, int]]:
    """Blocks of every tile axis: all alike, and each pair of a small one and a large one."""
    axes = [a.id for a in program.axes if a.kind in (AxisKind.TILE, AxisKind.PROGRAM_TILE)]
    if len(axes) <= 2:
        return [dict(zip(axes, blocks, strict=True)) for blocks in product(SIZES, repeat=len(axes))]
    return [dict.fromkeys(axes, size) for size in SIZES] + [
        {a: 2 if a == small else 64 for a in axes} for small in axes
    ]


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=[f"{n}-{'x'.join(map(str, s.values()))}" for n, s in CASES])
def test_a_specialised_program_means_the_same(name: str, sizes: dict[str, int]) -> None:
    _, program = bound(name, sizes)
    given = arguments(program)
    for blocks in choices(program):
        special = specialize(program, tuple(sorted(blocks.items())))
        verify(special)
        expected, found = (interpret(each, given, blocks=blocks) for each in (program, special))
        for before, after in zip(expected.outputs, found.outputs, strict=True):
            room = 1e-9 * (1.0 + np.abs(before.values))
            same = (before.values == after.values) | (np.isnan(before.values) & np.isnan(after.values))
            assert (same | (np.abs(before.values - after.values) <= room)).all(), (blocks, before.name)
            assert (np.isfinite(before.bound) == np.isfinite(after.bound)).all(), blocks


@pytest.mark.parametrize("packed", [1, 2, 4])
def test_packed_heads_share_the_head_they_read(packed: int) -> None:
    """`h // group` no longer varies along packed heads of one group; other packings leave it as it is."""
    _, program = bound("attention", {"B": 1, "Hq": 8, "Hkv": 2, "Q": 3, "K": 13, "D": 3, "Dv": 2})
    head, tile, loop = program.parallel[1], program.parallel[2], next(iter(loops(program)))
    special = specialize(program, ((head, packed), (tile, 2), (loop, 4)))
    verify(special)
    loads = [let for let in special.lets().values() if isinstance(let.value, Load) and loop in let.axes]
    assert len(loads) == 2
    assert all((head in let.axes) is (packed == 1) for let in loads)
    for let in loads:
        assert isinstance(let.value, Load)
        quotients = {a for entry in let.value.index for a in entry.atoms() if isinstance(a, Quotient)}  # type: ignore[union-attr]
        assert any(Coord(axis=head) in q.numerator.atoms() for q in quotients) is (packed == 1)
    given = arguments(program)
    expected, found = (interpret(each, given, blocks={tile: 2, loop: 4}) for each in (program, special))
    assert np.allclose(expected.outputs[0].values, found.outputs[0].values, rtol=1e-9)


def test_packed_heads_that_straddle_groups_keep_their_index() -> None:
    _, program = bound("attention", {"B": 1, "Hq": 6, "Hkv": 2, "Q": 1, "K": 5, "D": 2, "Dv": 2})
    head, tile, loop = program.parallel[1], program.parallel[2], next(iter(loops(program)))
    special = specialize(program, ((head, 2), (tile, 1), (loop, 4)))
    loads = [let for let in special.lets().values() if isinstance(let.value, Load) and loop in let.axes]
    assert all(head in let.axes for let in loads)


def loops(program: Program) -> tuple[int, ...]:
    return tuple(s.axis for s in statements(program.body) if isinstance(s, For))


def test_loops_of_one_trip_are_gone_with_their_states() -> None:
    _, program = bound("matmul", {"M": 5, "K": 7, "N": 3})
    (loop,) = loops(program)
    rows, columns = program.parallel
    assert loops(specialize(program, ((rows, 2), (columns, 3), (loop, 6)))) == (loop,)
    whole = specialize(program, ((rows, 2), (columns, 3), (loop, 7)))
    assert loops(whole) == ()
    assert whole.axes[loop].kind is AxisKind.FULL
    kinds = {type(let.value).__name__ for let in whole.lets().values()}
    assert kinds == {"Const", "Load", "Elementwise", "Reduce"}


def test_comparisons_that_the_blocks_decide_are_gone() -> None:
    """One query sees every key: the causal mask of a decode step hides nothing."""
    _, program = bound("attention", {"B": 1, "Hq": 2, "Hkv": 2, "Q": 1, "K": 9, "D": 2, "Dv": 2})
    (loop,) = loops(program)
    blocks = ((program.parallel[2], 1), (loop, 4))
    comparisons = [
        let
        for let in specialize(program, blocks).lets().values()
        if isinstance(let.value, Elementwise) and let.value.op in COMPARISONS
    ]
    assert comparisons == []


def test_specialising_twice_changes_nothing() -> None:
    for name, sizes in CASES[:6]:
        _, program = bound(name, sizes)
        for blocks in choices(program)[:8]:
            once = specialize(program, tuple(sorted(blocks.items())))
            again = specialize(once, tuple(sorted((a, b) for a, b in blocks.items())))
            assert once == again, (name, blocks)
