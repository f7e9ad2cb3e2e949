"""Which conversation a person means: by its id, a part that only it has, or its file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from recollect.engine.core import Engine
from recollect.engine.history.forgotten import forgotten_sessions
from recollect.engine.history.indexing import refresh
from recollect.model.errors import InvalidInput, NotFound
from recollect.ports.history import Conversation

MOST_NAMED = 8  # candidates of an ambiguous name


async def conversation_named(engine: Engine, given: str, *, silent: bool = False) -> Conversation:
    """The one that is meant; what isn't indexed yet is looked for once more after that. `silent`: also what is left out.

    Raises NotFound, InvalidInput listing the candidates.
    """
    known = await asyncio.to_thread(engine.history.conversations)
    found = _meant(given, known, silent=silent)
    if found is None:
        await refresh(engine)
        found = _meant(given, await asyncio.to_thread(engine.history.conversations), silent=silent)
    if found is None and (names := [one for one in await forgotten_sessions(engine) if given.strip() in one]):
        raise NotFound(
            f"The conversation {min(names)} is forgotten.",
            advice=f"`recollect history forget {min(names)} --lift` lets it be indexed again.",
        )
    if found is None:
        raise NotFound(
            f"No conversation {given.strip()!r} is known.",
            advice="`recollect history timeline` lists them; `recollect history index` reads what is new.",
        )
    return found


def files_of(session_id: str, known: Sequence[Conversation]) -> list[Conversation]:
    """All that belongs to a session: its own files first, then its sub-agents'."""
    found = [one for one in known if one.belongs_to == session_id]
    return sorted(found, key=lambda one: bool(one.part_of))


def is_exactly(given: str, one: Conversation) -> bool:
    """Whether it is named in full: by its id, its file's name, or its file."""
    wanted = given.strip()
    return _is_file(wanted, one) or _is_name(wanted, one)


def _is_file(wanted: str, one: Conversation) -> bool:
    return str(one.file) in (wanted, str(Path(wanted).expanduser().absolute()))


def _is_name(wanted: str, one: Conversation) -> bool:
    return wanted.casefold() in (one.session_id.casefold(), one.file.stem.casefold())


def _meant(given: str, known: Sequence[Conversation], *, silent: bool) -> Conversation | None:
    wanted = given.strip()
    if not wanted:
        raise InvalidInput("No conversation is named.", advice="Give its id, or a part of it.")
    there = [one for one in known if silent or not one.silent]
    folded = wanted.casefold()
    by_file = [one for one in there if _is_file(wanted, one)]
    exactly = [one for one in there if _is_name(wanted, one)]
    partly = [
        one for one in there if folded in one.session_id.casefold() or folded in one.file.stem.casefold()
    ]
    for found in (by_file, exactly, partly):
        if found:
            return _only(wanted, [one for one in found if not one.part_of] or found)
    return None


def _only(wanted: str, found: Sequence[Conversation]) -> Conversation:
    """The latest of one session's; raises where they are of several."""
    sessions = {(one.source, one.session_id): one for one in reversed(found)}
    if len(sessions) > 1:
        named = [_told(one) for one in list(reversed(sessions.values()))[:MOST_NAMED]]
        more = len(sessions) - len(named)
        told = "; ".join(named) + (f"; and {more} more" if more > 0 else "")
        raise InvalidInput(f"{wanted!r} is part of several conversations: {told}.", advice="Give more of it.")
    return found[0]


def _told(one: Conversation) -> str:
    when = one.ended or one.started
    about = [f"{when:%Y-%m-%d}" if when else "", one.project or one.folder]
    return f"{one.session_id} ({', '.join(filter(None, about))})"
