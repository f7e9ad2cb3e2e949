"""What a promise presupposes: a store that says it can't do that is not asked to keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mindhold.ports.store import Capability

Test = TypeVar("Test", bound=Callable[..., Any])


def needs(capability: Capability) -> Callable[[Test], Test]:
    """Marks a test of the contract."""

    def mark(test: Test) -> Test:
        test.needed_capability = capability  # type: ignore[attr-defined]
        return test

    return mark


def leave_out(contract: type, *, expects: frozenset[Capability]) -> None:
    """Take the tests out of a contract's subclass that need what its store is not expected to have."""
    for name in dir(contract):
        needed = getattr(getattr(contract, name), "needed_capability", None)
        if needed is not None and needed not in expects:
            setattr(contract, name, None)
