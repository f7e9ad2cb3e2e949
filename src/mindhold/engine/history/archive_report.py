"""What the archive couldn't do or let go of, kept until somebody sees it: most of its work is done by nobody's command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.history.vectors import own_job
from mindhold.model.entry import Entry

DRAWER = "history:archive"
KEY = "last"  # of this home
MOST = 20  # of each kind that are named


@dataclass(frozen=True, slots=True)
class Trouble:
    """Of the last look that had any. `evicted` are ids of sessions, of `made_room` in all: no words of theirs are kept."""

    when: datetime
    problems: tuple[str, ...] = ()
    too_big: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    made_room: int = 0
    made_room_at: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.problems or self.too_big)


async def last_trouble(engine: Engine) -> Trouble | None:
    """None where there was none. Raises the store's errors."""
    entry = await engine.store.entry(DRAWER, own_job(engine, KEY), now=engine.clock())
    if entry is None:
        return None
    value = entry.value
    return Trouble(
        entry.created,
        _texts(value.get("problems")),
        _texts(value.get("too_big")),
        _texts(value.get("evicted")),
        int(value.get("made_room") or 0),
        str(value.get("made_room_at") or ""),
    )


async def note_trouble(
    engine: Engine, *, problems: Sequence[str], too_big: Sequence[str], evicted: Sequence[str], whole: bool
) -> None:
    """Of one look: at the `whole` archive it takes the place of what was wrong before, else it is added to that. What made
    room is told until others do. Raises the store's errors."""
    before = await last_trouble(engine)
    if not (problems or too_big or evicted or (before is not None and before.failed and whole)):
        return
    earlier = before or Trouble(engine.clock())
    value: dict[str, Any] = {
        "problems": list(dict.fromkeys((*(() if whole else earlier.problems), *problems)))[:MOST],
        "too_big": list(dict.fromkeys((*(() if whole else earlier.too_big), *too_big)))[:MOST],
        "evicted": list(evicted or earlier.evicted)[:MOST],
        "made_room": len(evicted) or earlier.made_room,
        "made_room_at": engine.clock().isoformat() if evicted else earlier.made_room_at,
    }
    await engine.store.put_entry(Entry(DRAWER, own_job(engine, KEY), value, engine.clock()))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()
