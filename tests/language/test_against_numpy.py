"""Random expressions over whole tensors, and random control flow, mean in a kernel what they mean in NumPy."""

import itertools
from types import SimpleNamespace

import numpy as np
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import autotune as at
from autotune.errors import BadAxis
from autotune.ir.parse import parse
from autotune.ir.text import print_program
from autotune.ir.verify import verify
from autotune.language.load import load_kernels

N = 3
X = np.array([[2.0, -1.0, 0.5], [1.0, 3.0, -2.0], [-0.5, 0.25, 1.5]])
V = np.array([1.0, -2.0, 0.5])
NUMPY = SimpleNamespace(
    sum=lambda x, axis=None: np.sum(x, axis=axis),
    max=lambda x, axis=None: np.max(x, axis=axis),
    tanh=np.tanh,
    where=np.where,
    minimum=np.minimum,
    full=lambda shape, value, dtype: np.full(shape, float(value)),
    f64=np.float64,
    dot=np.matmul,
    einsum=np.einsum,
    reshape=np.reshape,
    range=range,
)
KERNEL = """
import autotune as at

@at.kernel
def kernel(x: at.f64["N", "N"], v: at.f64["N"], y: at.f64["N", "N"], z: at.f64["N"]):
    N = v.shape[0]
    for _p in at.parallel(1):
{body}
"""
MATRICES = [
    "x[:, :]",
    "{m}.T",
    "at.tanh({m})",
    "({m} + {m})",
    "({m} - {m}.T)",
    "({m} * {r})",
    "({m} + {r}[:, None])",
    "({r}[:, None] * {r})",
    "({r}[None, :] - {r}[:, None])",
    "at.where({m} > {r}, {m}, {r}[:, None])",
    "at.full((N, N), 0.5, dtype=at.f64)",
    "at.dot({m}, {m})",
    "at.dot({m}, {m}.T)",
    "at.einsum('i,ij->ji', {r}, {m})",
    "at.einsum('ij,j,kj->ki', {m}, {r}, {m})",
]
ROWS = [
    "v[:]",
    "v[::-1]",
    "x[1, :]",
    "x[:, 2]",
    "at.tanh({r})",
    "({r} + {r})",
    "({r} * at.max({r}))",
    "at.sum(x[:, :] * {m}, axis=0)",
    "at.sum(x[:, :] + {m}, axis=1)",
    "at.max(x[:, :] - {m}.T, axis=-1)",
    "at.minimum({r}, at.sum(v[:] + {r}))",
    "at.dot({m}, {r})",
    "at.dot({r}, {m})",
    "({r} * at.dot({r}, {r}))",
    "at.einsum('ij,ij->j', {m}, {m})",
]
CONDITIONS = ["{k} % 2 == 0", "at.max({r}) > 0.25", "v[{k}] < at.sum({r})", "at.dot({r}, {r}) > 1.5"]


@st.composite
def expressions(draw, forms, names, depth=3):
    """Text of one expression; `names` holds variables by kind, 'm' for matrices and 'r' for rows."""
    kind = "m" if forms is MATRICES else "r"
    leaves = [*(f for f in forms if "{" not in f), *names[kind]]
    form = draw(st.sampled_from([*leaves, *forms] if depth else leaves))
    while "{m}" in form:
        form = form.replace("{m}", draw(expressions(MATRICES, names, depth - 1)), 1)
    while "{r}" in form:
        form = form.replace("{r}", draw(expressions(ROWS, names, depth - 1)), 1)
    return form


@st.composite
def bodies(draw):
    """Statements that assign some variables and store one matrix and one row."""
    names = {"m": [], "r": []}
    lines = []
    for k in range(draw(st.integers(0, 4))):
        kind, forms = draw(st.sampled_from([("m", MATRICES), ("r", ROWS)]))
        lines.append(f"{kind}{k} = {draw(expressions(forms, names))}")
        names[kind].append(f"{kind}{k}")
    lines.append(f"y[:, :] = {draw(expressions(MATRICES, names))}")
    lines.append(f"z[:] = {draw(expressions(ROWS, names))}")
    return lines


@st.composite
def statements(draw, names, counters, depth=2):
    """Lines that assign variables which exist already, some of them inside branches and loops.

    Values stay small, so that conditions decide alike in both; `counters` holds the loop variables in force.
    """
    kind = draw(st.sampled_from(["m", "r"]))
    form = draw(st.sampled_from(["assign", "assign", "swap", "if", "for", "while"] if depth else ["assign"]))
    name = draw(st.sampled_from(names[kind]))
    match form:
        case "assign":
            return [f"{name} = at.tanh({draw(expressions(MATRICES if kind == 'm' else ROWS, names, 1))})"]
        case "swap":
            other = draw(st.sampled_from(names[kind]))
            return [f"{name}, {other} = {other}, {name}"]
        case "if":
            condition = draw(st.sampled_from(CONDITIONS)).replace("{k}", draw(st.sampled_from(counters)))
            while "{r}" in condition:
                condition = condition.replace("{r}", draw(expressions(ROWS, names, 1)), 1)
            lines = [f"if {condition}:", *draw(inside(names, counters, depth))]
            return [*lines, "else:", *draw(inside(names, counters, depth))] if draw(st.booleans()) else lines
        case "for":
            counter = f"k{depth}"
            body = draw(inside(names, [*counters, counter], depth))
            return [f"for {counter} in at.range({draw(st.integers(0, 3))}):", *body]
        case _:
            counter, trips = f"w{depth}", draw(st.integers(0, 2))
            body = draw(inside(names, [*counters, counter], depth))
            return [f"{counter} = 0", f"while {counter} < {trips}:", *body, f"    {counter} = {counter} + 1"]


@st.composite
def inside(draw, names, counters, depth):
    """An indented block."""
    count = draw(st.integers(1, 2))
    return [f"    {line}" for _ in range(count) for line in draw(statements(names, counters, depth - 1))]


@st.composite
def controlled_bodies(draw):
    """Some variables, control flow that changes them, and stores of one matrix and one row."""
    names = {"m": ["m0", "m1"], "r": ["r0", "r1"]}
    lines = ["m0, m1, r0, r1 = x[:, :], x[:, :] * 0.5, v[:], v[::-1]"]
    for _ in range(draw(st.integers(1, 3))):
        lines.extend(draw(statements(names, ["0", "1"])))
    return [*lines, "y[:, :] = m0 + m1.T", "z[:] = r0 - r1 * 2"]


COUNTER = itertools.count()


def agrees_with_numpy(tmp_path, lines):
    path = tmp_path / f"kernel_{next(COUNTER)}.py"
    path.write_text(KERNEL.format(body="\n".join(f"        {line}" for line in lines)))
    kernel = load_kernels(path)["kernel"]
    try:
        at.trace(kernel)
    except BadAxis:  # a sum over an axis along which all is constant
        assert any("at.full" in line for line in lines)
        reject()
    verify(kernel.program)
    assert parse(print_program(kernel.program)) == kernel.program
    scope = {"at": NUMPY, "x": X, "v": V, "N": N, "y": np.zeros((N, N)), "z": np.zeros(N)}
    exec("\n".join(lines), scope)
    result = at.interpret(kernel, X, V, np.zeros((N, N)), np.zeros(N))
    for name in "yz":
        size = np.abs(scope[name]).max()
        np.testing.assert_allclose(result[name].values, scope[name], rtol=1e-9, atol=1e-9 * max(size, 1.0))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=bodies())
def test_expressions_mean_what_numpy_says(tmp_path, lines):
    agrees_with_numpy(tmp_path, lines)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=controlled_bodies())
def test_control_flow_means_what_python_says(tmp_path, lines):
    agrees_with_numpy(tmp_path, lines)
