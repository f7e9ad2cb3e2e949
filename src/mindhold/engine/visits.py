"""Visits: what a server knows of a client between calls, kept so that a restart or a second server goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.keys import fingerprint
from mindhold.model.entry import Entry
from mindhold.model.errors import ContentTooLarge, InvalidInput, Refused

DRAWER = "visit"
LONGEST_ID = 200
LONGEST_OWNER = 500
LONGEST_CLIENT = 16_000


@dataclass(frozen=True, slots=True)
class Visit:
    """Who began it (in words of the door: a key's id, a client's), and how they speak."""

    owner: str
    protocol_version: str
    client: Mapping[str, Any]


async def keep_visit(engine: Engine, visit_id: str, visit: Visit, *, minutes: int) -> datetime:
    """Keep it, or keep it longer; returns until when. Raises InvalidInput, Refused when it is another's."""
    value = _checked(visit_id, visit)
    there = await find_visit(engine, visit_id)
    if there is not None and there.owner != visit.owner:
        raise Refused("This visit was begun by somebody else.", advice="Begin one of your own.")
    now = engine.clock()
    expires = now + timedelta(minutes=minutes)
    await engine.store.put_entry(Entry(DRAWER, fingerprint(visit_id), value, created=now, expires=expires))
    return expires


async def find_visit(engine: Engine, visit_id: str) -> Visit | None:
    """The visit of that id, unless it has ended."""
    entry = await engine.store.entry(DRAWER, fingerprint(visit_id), now=engine.clock())
    if entry is None:
        return None
    value = entry.value
    return Visit(value["owner"], value["protocol_version"], value["client"])


async def end_visit(engine: Engine, visit_id: str) -> bool:
    """Whether there was one."""
    return await engine.store.drop_entry(DRAWER, fingerprint(visit_id))


def _checked(visit_id: str, visit: Visit) -> dict[str, Any]:
    if not visit_id or len(visit_id) > LONGEST_ID:
        raise InvalidInput(f"A visit's id has 1 to {LONGEST_ID} characters.", advice="Make a shorter one.")
    value = {
        "owner": visit.owner,
        "protocol_version": visit.protocol_version,
        "client": dict(visit.client),
    }
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "What a client says of itself must be JSON.", advice="Use plain values."
        ) from error
    if len(visit.owner) > LONGEST_OWNER or size > LONGEST_CLIENT:
        raise ContentTooLarge(
            "A client says too much of itself.", advice=f"Keep it to {LONGEST_CLIENT:,} characters."
        )
    return value
