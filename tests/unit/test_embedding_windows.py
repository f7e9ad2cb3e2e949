"""Long texts in windows, and what makes a batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindhold.providers.embedding.base import OVERLAP_DIVISOR, combine, windows
from mindhold.providers.embedding.onnx import batches


def test_a_short_text_is_one_window() -> None:
    assert windows([1, 2, 3], 3) == [[1, 2, 3]]
    assert windows([], 3) == [[]]


@given(length=st.integers(1, 3000), limit=st.integers(1, 300))
def test_windows_cover_everything_in_order_and_overlap(length: int, limit: int) -> None:
    ids = list(range(length))
    parts = windows(ids, limit)
    assert sorted({number for part in parts for number in part}) == ids
    assert all(len(part) == min(limit, length) for part in parts)
    for left, right in zip(parts, parts[1:], strict=False):
        assert left[0] < right[0]
        assert left[-1] - right[0] + 1 >= limit // OVERLAP_DIVISOR


def test_combined_vectors_lean_to_the_longer_window_and_are_unit() -> None:
    one = combine(np.eye(2, dtype=np.float32), [3, 1])
    np.testing.assert_allclose(one, np.array([3, 1]) / np.sqrt(10), rtol=1e-6)


def test_windows_that_cancel_out_still_give_a_direction() -> None:
    one = combine(np.array([[1, 0], [-1, 0]], dtype=np.float32), [1, 1])
    assert np.linalg.norm(one) == 1


@given(lengths=st.lists(st.integers(1, 50)), most=st.integers(1, 200))
def test_batches_hold_every_row_once_within_the_bound(lengths: list[int], most: int) -> None:
    made = list(batches(lengths, most_tokens=most))
    assert sorted(row for batch in made for row in batch) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= most
