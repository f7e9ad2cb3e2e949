"""What is known of a project's captures: how many, when last, by whom, and what went wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from mindhold.engine.capture.alone import alone
from mindhold.engine.core import Engine
from mindhold.model.entry import Entry

DRAWER = "capture:state"  # by scope
LONGEST_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class CaptureState:
    """`captured_at` and `problem_at` are instants in UTC; `rung` is who picked out: rules, or a model's name."""

    captured_at: datetime | None = None
    conversation: str = ""
    event: str = ""
    captures: int = 0
    stored_total: int = 0
    rung: str = ""
    problem: str = ""
    problem_at: datetime | None = None


async def read_state(engine: Engine, scope: str) -> CaptureState:
    """As it was last written; an empty one for a project that nothing was captured of."""
    entry = await engine.store.entry(DRAWER, scope, now=engine.clock())
    return CaptureState() if entry is None else state_of(entry)


def state_of(entry: Entry) -> CaptureState:
    """What an entry of the drawer says."""
    value: dict[str, Any] = {name: entry.value[name] for name in _NAMES if name in entry.value}
    return CaptureState(**value | {name: _moment(value.get(name)) for name in _MOMENTS})


async def record_capture(
    engine: Engine,
    scope: str,
    *,
    conversation: str,
    event: str,
    stored: int,
    rung: str,
    problem: str = "",
) -> CaptureState:
    """Count one more. A capture without a problem ends the one before. Of several at once each is counted."""
    async with alone(engine, f"{DRAWER} {scope}"):
        now = engine.clock()
        before = await read_state(engine, scope)
        state = replace(
            before,
            captured_at=now,
            conversation=conversation,
            event=event,
            captures=before.captures + 1,
            stored_total=before.stored_total + stored,
            rung=rung or before.rung,
            problem=problem[:LONGEST_PROBLEM],
            problem_at=now if problem else None,
        )
        await _write(engine, scope, state)
    return state


async def record_problem(engine: Engine, scope: str, problem: str) -> None:
    """That a capture didn't come about, and why."""
    async with alone(engine, f"{DRAWER} {scope}"):
        before = await read_state(engine, scope)
        state = replace(before, problem=problem[:LONGEST_PROBLEM], problem_at=engine.clock())
        await _write(engine, scope, state)


async def _write(engine: Engine, scope: str, state: CaptureState) -> None:
    value = asdict(state)
    for name in _MOMENTS:
        value[name] = value[name] and value[name].isoformat()
    await engine.store.put_entry(Entry(DRAWER, scope, value, engine.clock()))


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


_MOMENTS = ("captured_at", "problem_at")
_NAMES = tuple(CaptureState.__dataclass_fields__)
