"""at.dot, at.einsum and reshape mean what NumPy says, and contractions keep their descriptor."""
# ruff: noqa: F821

import numpy as np
import pytest

import autotune as at
from autotune.ir.parse import parse
from autotune.ir.program import AxisKind, Elementwise, Reduce, operands
from autotune.ir.text import print_program
from autotune.ir.types import REASSOCIATING, STRICT, DType, Op
from autotune.ir.verify import verify
from autotune.language.load import load_kernels

RNG = np.random.default_rng(3)
KERNEL = """
import autotune as at

@at.kernel
def kernel({parameters}, y: at.f64[{result}]):
    for _p in at.parallel(1):
        y{place} = {expression}
"""


def contractions(program):
    return [let.value for let in program.lets().values() if isinstance(let.value, Reduce) and let.value.contraction]


def names(program, axes):
    return [program.axes[a].name for a in axes]


def agrees(tmp_path, expression, operands, expected):
    """Trace `expression` over whole f64 operands a, b, c and compare with what NumPy made of them."""
    parameters = ", ".join(f"{name}: at.f64[{_dims(array.shape)}]" for name, array in operands.items())
    place = f"[{', '.join([':'] * expected.ndim)}]" if expected.ndim else "[0]"
    text = KERNEL.format(parameters=parameters, result=_dims(expected.shape) or "1", place=place, expression=expression)
    path = tmp_path / "kernel.py"
    path.write_text(text)
    kernel = load_kernels(path)["kernel"]
    verify(kernel.program)
    assert parse(print_program(kernel.program)) == kernel.program
    found = at.interpret(kernel, *operands.values(), np.zeros(expected.shape or (1,)))["y"].values
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)
    return kernel.program


def _dims(shape):
    return ", ".join(str(n) for n in shape)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
    ],
)
def test_dot_follows_matmul(tmp_path, left, right):
    a, b = RNG.standard_normal(left), RNG.standard_normal(right)
    whole = [f"{name}[{', '.join([':'] * array.ndim)}]" for name, array in (("a", a), ("b", b))]
    program = agrees(tmp_path, f"at.dot({whole[0]}, {whole[1]})", {"a": a, "b": b}, np.asarray(a @ b))
    assert len(contractions(program)) == 1


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("i, i ->", [(3,), (3,)]),
        ("i,j->ij", [(3,), (2,)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("bij,kj->kbi", [(5, 2, 3), (4, 3)]),
        ("ijk,kj->i", [(2, 3, 4), (4, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("ij,k->jk", [(2, 3), (4,)]),
        ("i,i,i->i", [(3,), (3,), (3,)]),
    ],
)
def test_einsum_follows_numpy(tmp_path, subscripts, shapes):
    operands = {name: RNG.standard_normal(shape) for name, shape in zip("abc", shapes, strict=False)}
    whole = [f"{name}[{', '.join([':'] * array.ndim)}]" for name, array in operands.items()]
    expected = np.asarray(np.einsum(subscripts, *operands.values()))
    agrees(tmp_path, f"at.einsum({subscripts!r}, {', '.join(whole)})", operands, expected)


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        ("at.dot(a[:, :], a[:, :])", lambda a: a @ a),
        ("at.dot(a[:, :], a[:, :].T)", lambda a: a @ a.T),
        ("at.dot(at.exp(a[:, :]), at.exp(a[:, :]).T)", lambda a: np.exp(a) @ np.exp(a).T),
        ("at.dot(a[:, :] * 2, a[:, ::-1].T) + a[:, :]", lambda a: (a * 2) @ a[:, ::-1].T + a),
        ("at.dot(at.dot(a[:, :], a[:, :].T), a[:, :])", lambda a: a @ a.T @ a),
        ("at.einsum('ij,jk,kl->li', a[:, :], a[:, :], a[:, :].T)", lambda a: (a @ a @ a.T).T),
        ("a[:, :] * at.dot(a[:, :], a[:, 0])[:, None]", lambda a: a * (a @ a[:, 0])[:, None]),
    ],
)
def test_a_value_may_meet_itself_in_a_contraction(tmp_path, expression, meaning):
    a = RNG.standard_normal((3, 3))
    agrees(tmp_path, expression, {"a": a}, meaning(a))


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((6,), (2, 3)),
        ((2, 3), (6,)),
        ((4, 6), (4, 2, 3)),
        ((4, 6), (2, 2, 6)),
        ((4, 6), (24,)),
        ((4, 6), (3, 8)),
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (2, 12)),
        ((5, 1, 4), (5, 4)),
        ((4,), (1, 4, 1)),
        ((6,), (-1, 2)),
        ((2, 6, 3), (2, 2, -1, 3)),
    ],
)
@pytest.mark.parametrize("form", ["at.reshape({x}, {shape})", "{x}.reshape({shape})", "{x}.reshape{shape}"])
def test_reshape_follows_numpy(tmp_path, shape, wanted, form):
    a = RNG.standard_normal(shape)
    whole = f"at.tanh(a[{', '.join([':'] * a.ndim)}])"
    agrees(tmp_path, form.format(x=whole, shape=repr(wanted)), {"a": a}, np.tanh(a).reshape(wanted))


def test_a_reshape_recomputes_sums_and_contractions(tmp_path):
    a = RNG.standard_normal((6, 4))
    meaning = (a @ a.T).reshape(2, 3, 6) + a.sum(axis=1).reshape(2, 3)[:, :, None]
    text = "at.dot(a[:, :], a[:, :].T).reshape(2, 3, 6) + at.sum(a[:, :], axis=1).reshape(2, 3)[:, :, None]"
    agrees(tmp_path, text, {"a": a}, meaning)


@at.kernel
def heads(x: at.f64["S", "H*D"], d: at.f64["H", "D"], y: at.f64["S", "H"]):
    (S, _), (H, D) = x.shape, d.shape
    for s in at.parallel(at.tile(S)):
        y[s, :] = at.einsum("shd,hd->sh", x[s, :].reshape(s, H, D), d[:, :])


def test_a_dimension_is_split_by_symbols_beside_a_tile():
    x, d = RNG.standard_normal((5, 6)), RNG.standard_normal((2, 3))
    verify(heads.program)
    found = at.interpret(heads, x, d, np.zeros((5, 2)))["y"].values
    np.testing.assert_allclose(found, np.einsum("shd,hd->sh", x.reshape(5, 2, 3), d))


# The descriptor


@at.kernel
def matmul(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    (M, K), N = a.shape, b.shape[1]
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        acc = at.zeros((i, j))
        for k in at.tile(K):
            acc += at.dot(a[i, k], b[k, j])
        c[i, j] = acc


@at.kernel
def strict_matmul(a: at.f32["M", "K"], b: at.f32["K", "N"], c: at.f32["M", "N"]):
    (M, K), N = a.shape, b.shape[1]
    for i, j in at.parallel(at.tile(M), at.tile(N)):
        acc = at.zeros((i, j))
        for k in at.tile(K):
            with at.strict():
                acc += at.einsum("ik,kj->ij", a[i, k], b[k, j])
        c[i, j] = acc


@at.kernel
def batched(a: at.f32["B", "M", "K"], b: at.f32["B", "K", "N"], c: at.f32["B", "M", "N"]):
    (B, M, K), N = a.shape, b.shape[2]
    for n, i, j in at.parallel(at.tile(B), at.tile(M), at.tile(N)):
        acc = at.zeros((n, i, j))
        for k in at.tile(K):
            acc += at.dot(a[n, i, k], b[n, k, j])
        c[n, i, j] = acc


@pytest.mark.parametrize("kernel", [matmul, strict_matmul])
@pytest.mark.parametrize("block", [1, 2, 5])
def test_a_tiled_matmul_is_a_matmul(kernel, block):
    a, b = RNG.standard_normal((3, 5)).astype(np.float32), RNG.standard_normal((5, 4)).astype(np.float32)
    tiles = {x.id: block for x in kernel.program.axes}
    found = at.interpret(kernel, a, b, np.zeros((3, 4), np.float32), blocks=tiles)["c"]
    np.testing.assert_allclose(found.values, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-12)


def test_three_tile_dimensions_and_a_loop():
    a, b = RNG.standard_normal((2, 3, 5)).astype(np.float32), RNG.standard_normal((2, 5, 4)).astype(np.float32)
    found = at.interpret(batched, a, b, np.zeros((2, 3, 4), np.float32))["c"]
    np.testing.assert_allclose(found.values, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-12)
    (one,) = contractions(batched.program)
    assert [names(batched.program, part) for part in (one.contraction.batch, one.contraction.k)] == [["n"], ["k"]]


def test_a_contraction_names_its_factors_and_the_part_of_each_axis():
    program = matmul.program
    (one,) = contractions(program)
    this, lets = one.contraction, program.lets()
    assert [names(program, part) for part in (this.batch, this.m, this.n, this.k)] == [[], ["i"], ["j"], ["k"]]
    assert lets[one.body].value.args == (this.lhs, this.rhs)
    assert this.accumulator is DType.F32
    assert program.axes[this.k[0]].kind is AxisKind.TILE
    assert one.math == REASSOCIATING and not one.ordered


def test_a_strict_contraction_is_ordered_and_may_not_fuse():
    (one,) = contractions(strict_matmul.program)
    assert one.math == STRICT and one.ordered


@at.kernel
def shared(a: at.f32["M", "K"], b: at.f32["K"], y: at.f32["M"], z: at.f32["M"], w: at.f32["M", "K"]):
    for i in at.parallel(a.shape[0]):
        y[i] = at.dot(a[i, :], b[:])
        z[i] = at.dot(a[i, :], b[:]) + 1
        w[i, :] = a[i, :] * b[:]


def test_the_product_of_a_contraction_serves_it_alone():
    program = shared.program
    (one,) = contractions(program)
    users = [let.id for let in program.lets().values() if one.body in operands(let.value)]
    products = [v for v in program.lets().values() if isinstance(v.value, Elementwise) and v.value.op is Op.MUL]
    assert len(users) == 1 and len(products) == 2
    a, b = RNG.standard_normal((2, 3)).astype(np.float32), RNG.standard_normal(3).astype(np.float32)
    result = at.interpret(shared, a, b, np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(result["z"].values, a.astype(float) @ b + 1, rtol=1e-6)
    np.testing.assert_allclose(result["w"].values, a.astype(float) * b, rtol=1e-6)


@at.kernel
def narrow(
    h: at.f16["M", "K"], g: at.bf16["M", "K"], s: at.i8["M", "K"], n: at.i32["M", "K"],
    y: at.f32["M"], z: at.f32["M"], p: at.i32["M"], q: at.f32["M"],
):  # fmt: skip
    for i in at.parallel(h.shape[0]):
        y[i] = at.dot(h[i, :], h[i, :])
        z[i] = at.dot(h[i, :], g[i, :])
        p[i] = at.dot(s[i, :], s[i, :])
        q[i] = at.dot(n[i, :], h[i, :])


def test_narrow_types_accumulate_in_wider_ones():
    kinds = [one.contraction.accumulator for one in contractions(narrow.program)]
    assert kinds == [DType.F32, DType.F32, DType.I32, DType.F32]
    h = RNG.standard_normal((2, 3)).astype(np.float16)
    s, n = np.array([[100, 100, 3], [-128, -128, 1]], np.int8), np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    empty = [np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros(2, np.int32), np.zeros(2, np.float32)]
    result = at.interpret(narrow, h, h.astype(np.float32), s, n, *empty)
    np.testing.assert_allclose(result["y"].values, (h.astype(float) ** 2).sum(axis=1))
    assert result["p"].values.tolist() == [20009, 32769]
    np.testing.assert_allclose(result["q"].values, (n * h.astype(float)).sum(axis=1), rtol=1e-2)


@at.kernel
def constant_factor(x: at.f64["M", "K"], y: at.f64["M"]):
    for i in at.parallel(x.shape[0]):
        y[i] = at.dot(x[i, :], at.full((x.shape[1],), 2.0, dtype=at.f64))


def test_a_product_with_a_constant_is_a_plain_sum():
    x = RNG.standard_normal((2, 3))
    assert not contractions(constant_factor.program)
    np.testing.assert_allclose(at.interpret(constant_factor, x, np.zeros(2))["y"].values, 2 * x.sum(axis=1))


# A tile that meets itself


@at.kernel
def gram(x: at.f64["M", "K"], y: at.f64["M"], z: at.f64["M"]):
    for i in at.parallel(at.tile(x.shape[0])):
        v = at.tanh(x[i, :])
        m = at.max(v, axis=1)
        y[i] = at.max(at.maximum(m[:, None], m[None, :]) * 0 + m[:, None], axis=1)
        s = at.dot(v, v.T)
        z[i] = at.max(s * 0 + m[:, None], axis=1)


def test_computed_values_meet_themselves_along_a_tile():
    x = RNG.standard_normal((5, 3))
    verify(gram.program)
    assert parse(print_program(gram.program)) == gram.program
    result = at.interpret(gram, x, np.zeros(5), np.zeros(5))
    for name in "yz":
        np.testing.assert_allclose(result[name].values, np.tanh(x).max(axis=1))


@at.kernel
def pairwise(x: at.f64["N"], y: at.f64["N"]):
    for i in at.parallel(at.tile(x.shape[0])):
        v = x[i] + 1
        acc = at.zeros((i,), dtype=at.f64)
        for j in at.tile(x.shape[0]):
            acc += at.sum(v[:, None] * x[j][None, :], axis=1)
        y[i] = acc


def test_tiles_of_two_loops_stand_in_one_value():
    x = RNG.standard_normal(7)
    np.testing.assert_allclose(at.interpret(pairwise, x, np.zeros(7))["y"].values, (x + 1) * x.sum())


def test_every_program_here_is_valid_and_survives_its_text(programs):
    for program in programs.values():
        verify(program)
        assert parse(print_program(program)) == program
