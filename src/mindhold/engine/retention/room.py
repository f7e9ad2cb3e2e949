"""How much room there is, and words about it where there is little."""

from __future__ import annotations

from mindhold.engine.core import Engine
from mindhold.model.errors import StoreAway
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.retention import Room
from mindhold.ports.store import Finding

MEGABYTE = 1_000_000
WHAT = "room for memories"


async def room_of(engine: Engine) -> Room:
    """Of everybody's memories. Cheap."""
    chosen = engine.policy.retention
    return Room(
        items=await engine.store.count(Filter(viewer="system")),
        all_items=await engine.store.count(Filter(viewer="system", statuses=ANY_STATUS)),
        bytes_used=(await engine.store.facts()).bytes_used,
        most_items=chosen.most_items,
        most_bytes=chosen.most_megabytes * MEGABYTE,
    )


async def room_finding(engine: Engine) -> Finding:
    """Healthy where no limit is near, or where upkeep will see to it."""
    try:
        room = await room_of(engine)
    except StoreAway as error:  # a project's own store: how much is in it can't be told now
        return Finding(WHAT, True, f"not known: {error.message}")
    return Finding(WHAT, not room.tight, _counted(room), advice=_advice(engine) if room.tight else "")


async def room_notice(engine: Engine) -> str:
    """For a status: empty where there is room."""
    found = await room_finding(engine)
    return "" if found.healthy else f"Little room is left: {found.detail}. {found.advice}"


def _counted(room: Room) -> str:
    items = f"{room.items:,}" + (f" of {room.most_items:,}" if room.most_items else "") + " active memories"
    megabytes = f"{room.active_bytes / MEGABYTE:,.0f}"
    if room.most_bytes:
        megabytes += f" of {room.most_bytes / MEGABYTE:,.0f}"
    beside = room.bytes_used - room.active_bytes
    told = f", {beside / MEGABYTE:,.0f} more in the archive" if beside >= MEGABYTE else ""
    return f"{items}, {megabytes} MB{told}"


def _advice(engine: Engine) -> str:
    if not engine.policy.retention.prunes:
        return "Nothing goes by itself (retention.level is keep-all): retire a scope, or allow more (retention.most_items, most_megabytes)."
    return (
        "Upkeep condenses and archives what it may (`mindhold consolidate`). Where that isn't enough the rest is kept "
        "on purpose: retire a scope, or allow more (retention.most_items, most_megabytes)."
    )
