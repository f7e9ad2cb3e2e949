"""By size: before a limit is hit the oldest conversations are condensed, then the least valuable go; never what is protected."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from mindhold.engine.consolidate.stage import Bounds, Stage, Told
from mindhold.engine.core import Engine
from mindhold.engine.retention.away import put_away, staged
from mindhold.engine.retention.recapping import Recaps
from mindhold.engine.retention.room import room_of
from mindhold.engine.retention.time import OldTalk
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.model.retention import YOUNGEST, Room, is_loose, may_go, worth

MOST_AT_ONCE = 10_000
WHY = "there is little room, and of all it was worth least"


async def make_room(engine: Engine, within: Bounds, recaps: Recaps) -> Stage:
    """Where 90 % of a limit is taken: until 80 % is, or nothing is left that may go."""
    room = await room_of(engine)
    wanted = room.to_free()
    if not wanted:
        return staged([], "")
    talk = OldTalk(engine, within, recaps, after=YOUNGEST, most=wanted)
    told = [one async for some in talk.leaving() for one in some]
    least, looked, more = await _least_put_away(engine, within, wanted - len(told), besides=told)
    told += least
    words = f"archived {len(told)} to make room ({_why(room)})" if told else ""
    return staged(told, words, looked=talk.looked + looked, more=more or within.over)


async def _least_put_away(
    engine: Engine, within: Bounds, wanted: int, *, besides: Sequence[Told]
) -> tuple[list[Told], int, bool]:
    """The least valuable of what may go alone; how many were looked at, and whether the time was up before."""
    if wanted <= 0:
        return [], 0, False
    gone = {one.memory_id for one in besides}  # in a dry run they are there still
    least, looked = await _least(engine, min(wanted, MOST_AT_ONCE), besides=gone)
    told: list[Told] = []
    for first in range(0, len(least), within.batch):
        if first and within.over:
            return told, looked, True
        some = least[first : first + within.batch]
        told += await put_away(engine, some, why=WHY, within=within, read=engine.clock())
    return told, looked, False


async def _least(engine: Engine, wanted: int, *, besides: set[str]) -> tuple[list[Memory], int]:
    """A batch at a time, so that there is never more than twice as much in memory as is wanted."""
    least: list[Memory] = []
    looked = 0
    async for batch in engine.store.scan(Filter(viewer="system")):
        now = engine.clock()
        looked += len(batch)
        ready = [one for one in batch if one.id not in besides and is_loose(one) and may_go(one, now)]
        least = nsmallest(wanted, [*least, *ready], key=worth)
    return least, looked


def _why(room: Room) -> str:
    return f"{room.fullest:.0%} of what is allowed was taken"
