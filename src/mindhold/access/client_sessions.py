"""Visits: what a server knows of a client between calls. They are stored, so a restart or a second server can continue them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from mindhold.access.keys import Secret, SecretInput
from mindhold.access.secrets import fingerprint
from mindhold.model.errors import ContentTooLarge, InvalidInput, Refused
from mindhold.model.job import Entry
from mindhold.operations import Context, Output, operation

VISIT_NAMESPACE = "visit"
LONGEST_ID = 200
LONGEST_OWNER = 500
LONGEST_CLIENT = 16_000


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
    """Save a visit, so that it survives a restart.

    Raises InvalidInput, or Refused for another owner's visit.
    """
    value = _checked_value(request)
    existing = await _entry(context, request)
    if existing is not None and existing.value["owner"] != request.owner:
        raise Refused("This visit was begun by somebody else.", advice="Begin one of your own.")
    now = context.engine.clock()
    expires = now + timedelta(minutes=request.ttl_minutes)
    await context.engine.store.put_entry(
        Entry(VISIT_NAMESPACE, fingerprint(request.id), value, created=now, expires=expires)
    )
    return KeptVisit(expires=expires)


KEEP_VISIT = operation("keep_visit", _keep_visit, writes=True, owner_only=True)


async def _find_visit(context: Context, request: VisitInput) -> FoundVisit:
    """Find a visit that has not expired."""
    entry = await _entry(context, request)
    return FoundVisit(found=False) if entry is None else FoundVisit(found=True, **entry.value)


FIND_VISIT = operation("find_visit", _find_visit, reads=True, owner_only=True)


async def _end_visit(context: Context, request: VisitInput) -> EndedVisit:
    """End a visit."""
    return EndedVisit(ended=await context.engine.store.drop_entry(VISIT_NAMESPACE, fingerprint(request.id)))


END_VISIT = operation("end_visit", _end_visit, writes=True, owner_only=True)


async def _entry(context: Context, request: VisitInput) -> Entry | None:
    return await context.engine.store.entry(
        VISIT_NAMESPACE, fingerprint(request.id), now=context.engine.clock()
    )


def _checked_value(request: KeepVisitInput) -> dict[str, Any]:
    if not request.id or len(request.id) > LONGEST_ID:
        raise InvalidInput(f"A visit's id has 1 to {LONGEST_ID} characters.", advice="Make a shorter one.")
    value = {
        "owner": request.owner,
        "protocol_version": request.protocol_version,
        "client": request.client,
    }
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "What a client says of itself must be JSON.", advice="Use plain values."
        ) from error
    if len(request.owner) > LONGEST_OWNER or size > LONGEST_CLIENT:
        raise ContentTooLarge(
            "A client says too much of itself.", advice=f"Keep it to {LONGEST_CLIENT:,} characters."
        )
    return value
