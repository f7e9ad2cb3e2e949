"""Tests that a run was told to leave out: deselected, and told at the end, also where workers collect them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

_KEY = "left_out"
_numbers: dict[str, int] = {}


def leave_out(
    config: pytest.Config, items: list[pytest.Item], which: Callable[[pytest.Item], bool], *, why: str
) -> None:
    """Deselect those; the summary says how many they were, and `why`."""
    unwanted = [item for item in items if which(item)]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if not which(item)]
    _numbers[why] = len(unwanted)


def pytest_sessionfinish(session: pytest.Session) -> None:
    told: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told[_KEY] = _numbers


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _numbers.update(getattr(node, "workeroutput", {}).get(_KEY, {}))  # each worker collects everything


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why, number in _numbers.items():
        terminalreporter.write_line(f"NOT RUN: {number} {why}.", yellow=True)
