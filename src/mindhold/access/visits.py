"""Visits: what a server knows of a client between calls. They are stored, so a restart or a second server can continue them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from mindhold.access.keys import Secret, SecretInput, matching_fields
from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.model.errors import ContentTooLarge, InvalidInput, Refused
from mindhold.model.job import Entry
from mindhold.operations import Context, Output, operation

VISIT_NAMESPACE = "visit"
LONGEST_ID = 200
LONGEST_OWNER = 500
LONGEST_CLIENT = 16_000


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit: who started it (a key's or client's id), the protocol version, and the client's metadata."""

    owner: str
    protocol_version: str
    client: Mapping[str, Any]


async def keep_visit(engine: Engine, visit_id: str, visit: Visit, *, minutes: int) -> datetime:
    """Save or extend a visit and return when it expires. Raises InvalidInput, or Refused for another owner's visit."""
    value = _to_value(visit_id, visit)
    existing = await find_visit(engine, visit_id)
    if existing is not None and existing.owner != visit.owner:
        raise Refused("This visit was begun by somebody else.", advice="Begin one of your own.")
    now = engine.clock()
    expires = now + timedelta(minutes=minutes)
    await engine.store.put_entry(
        Entry(VISIT_NAMESPACE, fingerprint(visit_id), value, created=now, expires=expires)
    )
    return expires


async def find_visit(engine: Engine, visit_id: str) -> Visit | None:
    """The visit of that id; None if it has expired."""
    entry = await engine.store.entry(VISIT_NAMESPACE, fingerprint(visit_id), now=engine.clock())
    if entry is None:
        return None
    value = entry.value
    return Visit(value["owner"], value["protocol_version"], value["client"])


async def end_visit(engine: Engine, visit_id: str) -> bool:
    """End a visit; returns whether there was one."""
    return await engine.store.drop_entry(VISIT_NAMESPACE, fingerprint(visit_id))


def _to_value(visit_id: str, visit: Visit) -> dict[str, Any]:
    if not visit_id or len(visit_id) > LONGEST_ID:
        raise InvalidInput(f"A visit's id has 1 to {LONGEST_ID} characters.", advice="Make a shorter one.")
    value = {"owner": visit.owner, "protocol_version": visit.protocol_version, "client": dict(visit.client)}
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


class VisitInput(SecretInput):
    """Which visit, by its id, which is treated as a secret."""

    id: Secret


class KeepVisitInput(VisitInput):
    """The current visit. Only the `owner` who started it can continue it."""

    owner: str
    protocol_version: str
    client: dict[str, Any] = {}
    ttl_minutes: int = Field(default=1440, ge=1, le=43_200)


class KeptVisit(Output):
    """When it expires without further calls."""

    expires: datetime


class FoundVisit(Output):
    """A visit. Compare `owner` before continuing it."""

    found: bool
    owner: str = ""
    protocol_version: str = ""
    client: dict[str, Any] = {}


class EndedVisit(Output):
    """Whether there was one."""

    ended: bool


async def _keep_visit(context: Context, request: KeepVisitInput) -> KeptVisit:
    """Save a visit, so that it survives a restart."""
    visit = Visit(request.owner, request.protocol_version, request.client)
    return KeptVisit(expires=await keep_visit(context.engine, request.id, visit, minutes=request.ttl_minutes))


KEEP_VISIT = operation("keep_visit", _keep_visit, writes=True, owner_only=True)


async def _find_visit(context: Context, request: VisitInput) -> FoundVisit:
    """Find a visit that has not expired."""
    visit = await find_visit(context.engine, request.id)
    return FoundVisit(found=visit is not None, **matching_fields(FoundVisit, visit))


FIND_VISIT = operation("find_visit", _find_visit, reads=True, owner_only=True)


async def _end_visit(context: Context, request: VisitInput) -> EndedVisit:
    """End a visit."""
    return EndedVisit(ended=await end_visit(context.engine, request.id))


END_VISIT = operation("end_visit", _end_visit, writes=True, owner_only=True)
