"""The kernels of tests/measure/fake_build.py that a search is given, by number."""

NAMES = (
    "slow",
    "right",
    "null write",
    "hang",
    "compiler aborts",
    "writes past the end",
    "eats memory",
    "wrong by 1000 ulp",
    "compiler hangs",
    "compiler raises",
)
