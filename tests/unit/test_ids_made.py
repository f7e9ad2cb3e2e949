"""An id tells when it was made."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mindhold.model.memory import IdMaker, id_time


def test_it_tells_when_it_was_made() -> None:
    moment = datetime(2026, 3, 1, 9, 0, 0, 123_000, tzinfo=UTC)
    make = IdMaker(lambda: moment, lambda bits: (1 << bits) - 2)
    assert id_time(make()) == moment


@pytest.mark.parametrize("other", ["", "msg_150", "z" * 26, "01k2v9c3m4q8r7t6w5x1y0z2a", "u" * 26])
def test_what_is_none_of_ours(other: str) -> None:
    assert id_time(other) is None
