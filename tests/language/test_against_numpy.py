"""Random expressions over whole tensors mean in a kernel what they mean in NumPy."""

import itertools
from types import SimpleNamespace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autotune as at
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
]


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


COUNTER = itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=bodies())
def test_expressions_mean_what_numpy_says(tmp_path, lines):
    path = tmp_path / f"kernel_{next(COUNTER)}.py"
    path.write_text(KERNEL.format(body="\n".join(f"        {line}" for line in lines)))
    kernel = load_kernels(path)["kernel"]
    verify(kernel.program)
    assert parse(print_program(kernel.program)) == kernel.program
    scope = {"at": NUMPY, "x": X, "v": V, "N": N, "y": np.zeros((N, N)), "z": np.zeros(N)}
    exec("\n".join(lines), scope)
    result = at.interpret(kernel, X, V, np.zeros((N, N)), np.zeros(N))
    np.testing.assert_allclose(result["y"].values, scope["y"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result["z"].values, scope["z"], rtol=1e-9, atol=1e-9)
