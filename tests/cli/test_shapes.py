"""What texts for sizes and scalars mean, and what is said about the wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cli.errors import BadShape
from autotune.cli.shapes import format_shape, parse_shape


def test_a_shape_has_whole_sizes_and_scalars() -> None:
    shape = parse_shape("M=129, N=512,scale=0.125")
    assert shape == {"M": 129, "N": 512, "scale": 0.125}
    assert isinstance(shape["M"], int) and isinstance(shape["scale"], float)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not NAME=NUMBER"),
        ("M", "'M' is not NAME=NUMBER"),
        ("M=129,,N=1", "'' is not NAME=NUMBER"),
        ("129x512", "'129x512' is not NAME=NUMBER"),
        ("M=many", "'many' is not a number"),
        ("M=1,M=2", "M is given twice"),
        ("scale=nan", "'nan' is not a finite number"),
    ],
)
def test_a_bad_shape_says_what_is_wrong_and_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(BadShape) as caught:
        parse_shape(text)
    assert problem in str(caught.value)
    assert "write --shape M=129,N=512" in str(caught.value)


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z]\w{0,5}", fullmatch=True).filter(str.isascii), st.integers(0), min_size=1)
)
def test_a_shape_round_trips_through_its_text(shape: dict[str, int]) -> None:
    assert parse_shape(format_shape(dict(shape))) == shape
