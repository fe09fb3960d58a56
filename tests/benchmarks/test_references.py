"""The two C attentions agree with float64 NumPy at every kind of shape, and refuse what they cannot take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import c_compiler
from benchmarks.peers import Prepared
from benchmarks.references import BadOperands, dense, online, openblas
from benchmarks.timing import NativeCall

try:
    c_compiler.find_compiler()
except c_compiler.NoCompiler as missing:
    pytest.skip(str(missing), allow_module_level=True)

try:
    openblas.find()
    NO_OPENBLAS = ""
except openblas.NoOpenBlas as missing:
    NO_OPENBLAS = str(missing)

Reference = Callable[..., Prepared]
REFERENCES = (
    online,
    pytest.param(dense, marks=pytest.mark.skipif(bool(NO_OPENBLAS), reason=NO_OPENBLAS)),
)
U = 2.0**-24

SHAPES = (
    (1, 4, 2, 65, 131, 64, 64),
    (1, 8, 2, 3, 67, 80, 96),
    (2, 8, 1, 1, 2053, 80, 96),
    (1, 16, 4, 1, 8193, 128, 128),
    (1, 8, 2, 1, 32768, 64, 96),
    (1, 8, 8, 1, 519, 64, 64),  # one row a KV head
    (1, 4, 2, 1, 1, 64, 64),  # K below every block
    (1, 1, 1, 1, 1, 64, 64),
    (1, 2, 1, 1, 37, 80, 96),  # two rows
    (1, 3, 1, 1, 70, 64, 64),  # a group that is no power of two
    (1, 5, 1, 1, 70, 64, 64),
    (2, 3, 3, 5, 9, 64, 64),
    (1, 7, 1, 2, 50, 64, 64),  # fourteen rows: one vector of a tile
    (1, 4, 4, 17, 40, 64, 64),
    (1, 34, 1, 1, 70, 64, 64),  # more heads than one block of rows
    (1, 20, 1, 3, 40, 64, 64),
    (1, 4, 2, 64, 128, 64, 64),
    (1, 2, 1, 48, 48, 64, 64),  # Q = K
    (1, 2, 1, 9, 4, 64, 64),  # K < Q: the first rows see nothing
    (1, 4, 2, 3, 1, 64, 64),
    (1, 2, 1, 3, 20, 7, 5),  # depths that fill no vector
    (1, 4, 1, 1, 20, 7, 5),
    (1, 1, 1, 1, 20, 21, 19),
    (1, 8, 1, 5, 20, 21, 19),
)


def tensors(
    *shape: int, spread: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    batch, query_heads, kv_heads, queries, keys, depth, value_depth = shape
    rng = np.random.default_rng(sum(shape))
    q = rng.standard_normal((batch, query_heads, queries, depth), dtype=np.float32) * np.float32(spread)
    k = rng.standard_normal((batch, kv_heads, keys, depth), dtype=np.float32)
    v = rng.standard_normal((batch, kv_heads, keys, value_depth), dtype=np.float32)
    return q, k, v, np.full((batch, query_heads, queries, value_depth), np.nan, dtype=np.float32)


def expected(
    q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32], scale: float, causal: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The float64 answer, and a bound on a float32 one: errors of the scores, of exp and of both sums."""
    group, keys, queries = q.shape[1] // k.shape[1], k.shape[2], q.shape[2]
    wide_q, wide_k = q.astype(np.float64), np.repeat(k, group, axis=1).astype(np.float64)
    wide_v = np.repeat(v, group, axis=1).astype(np.float64)
    scores = scale * (wide_q @ wide_k.swapaxes(-1, -2))
    wrong = scale * (np.abs(wide_q) @ np.abs(wide_k).swapaxes(-1, -2)) * U * (q.shape[3] + 4)
    if causal:
        seen = np.tri(queries, keys, keys - queries, dtype=np.bool_)
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    wrong = weights * (wrong + U * (16 + 4 * np.abs(np.where(weights > 0, scores, 0.0))))
    sums = wrong.sum(axis=-1, keepdims=True) + 8 * U * np.sqrt(keys)
    return weights @ wide_v, wrong @ np.abs(wide_v) + sums * (weights @ np.abs(wide_v)) + 1e-37


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: ",".join(map(str, shape)))
@pytest.mark.parametrize("causal", (True, False), ids=("causal", "full"))
def test_a_reference_agrees_with_float64(reference: Reference, shape: tuple[int, ...], causal: bool) -> None:
    q, k, v, out = tensors(*shape)
    before = [array.copy() for array in (q, k, v)]
    scale = shape[5] ** -0.5
    got = reference(q, k, v, out, scale, causal=causal).outcome()
    answer, bound = expected(q, k, v, scale, causal)
    assert got is out
    assert (np.abs(got - answer) <= bound).all(), np.nanmax(np.abs(got - answer) / bound)
    assert all(np.array_equal(a, b) for a, b in zip(before, (q, k, v), strict=True))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("shape", ((1, 4, 2, 40, 131, 64, 64), (1, 8, 2, 1, 2053, 80, 96)))
def test_large_scores_neither_overflow_nor_vanish(reference: Reference, shape: tuple[int, ...]) -> None:
    q, k, v, out = tensors(*shape, spread=60.0)
    got = reference(q, k, v, out, 0.5).outcome()
    answer, bound = expected(q, k, v, 0.5, True)
    assert (np.abs(got - answer) <= bound).all()


@pytest.mark.parametrize("reference", REFERENCES)
def test_two_runs_give_the_same_bits(reference: Reference) -> None:
    q, k, v, out = tensors(1, 8, 2, 3, 67, 80, 96)
    prepared = reference(q, k, v, out, 0.1)
    first = prepared.outcome().copy()
    out.fill(np.nan)
    assert np.array_equal(prepared.outcome(), first)


def test_the_call_is_native_and_outlives_its_maker() -> None:
    prepared = online(*tensors(1, 4, 2, 1, 20, 64, 64), 0.125)
    assert isinstance(prepared.call, NativeCall)
    assert len(prepared.call.arguments) == 5
    assert np.isfinite(prepared.outcome()).all()


@pytest.mark.skipif(bool(NO_OPENBLAS), reason=NO_OPENBLAS)
def test_the_dense_reference_uses_one_thread() -> None:
    dense(*tensors(1, 4, 2, 1, 20, 64, 64), 0.125)
    assert openblas.threads() == 1


def test_operands_that_do_not_fit_are_refused() -> None:
    q, k, v, out = tensors(1, 4, 2, 3, 20, 64, 64)
    with pytest.raises(BadOperands, match="k has shape"):
        online(q, k[..., :32].copy(), v, out, 0.125)
    with pytest.raises(BadOperands, match="contiguous float32"):
        online(q[..., ::2], k, v, out, 0.125)
    with pytest.raises(BadOperands, match="expected a multiple"):
        online(q[:, :3].copy(), k, v, out[:, :3].copy(), 0.125)


def test_the_library_is_kept_outside_the_repository_and_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "seven.c"
    source.write_text("int seven(void) { return SEVEN; }\n")
    assert c_compiler.load_library(source, ("-DSEVEN=7",)).seven() == 7
    (library,) = c_compiler.cache_folder().iterdir()
    made = library.stat().st_mtime_ns
    c_compiler.load_library.cache_clear()
    assert c_compiler.load_library(source, ("-DSEVEN=7",)).seven() == 7
    assert library.stat().st_mtime_ns == made
    assert c_compiler.load_library(source, ("-DSEVEN=8",)).seven() == 8
    assert len(list(c_compiler.cache_folder().iterdir())) == 2


def test_a_source_that_is_no_c_is_reported_with_what_the_compiler_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "wrong.c"
    source.write_text("this is no C\n")
    with pytest.raises(c_compiler.CompileFailed, match="error"):
        c_compiler.load_library(source)


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(c_compiler.NoCompiler, match="install one"):
        c_compiler.find_compiler()
