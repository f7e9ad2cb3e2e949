"""Which conversation a person means: by its id, a part that only it has, or its file."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from mindhold.engine.core import Engine
from mindhold.engine.history.forgotten import forgotten_sessions, meant
from mindhold.engine.history.indexing import refresh
from mindhold.engine.history.preparing import is_empty
from mindhold.model.errors import InvalidInput, NotFound
from mindhold.ports.history import Conversation

MOST_NAMED = 8  # candidates of an ambiguous name


async def conversation_named(engine: Engine, given: str, *, silent: bool = False) -> Conversation:
    """The one that is meant; what isn't indexed yet is looked for once more after that. `silent`: also what is left out.

    Raises NotFound, InvalidInput listing the candidates.
    """
    # Rows of a forgotten one are there until whoever indexes lets others write.
    forgotten = set() if silent else await forgotten_sessions(engine)
    known = await _known(engine, forgotten)
    found = _meant(given, known, silent=silent)
    if found is None:
        await refresh(engine)
        known = await _known(engine, forgotten)
        found = _meant(given, known, silent=silent)
    if found is None:
        raise _unknown(engine, given, known, forgotten)
    return found


async def _known(engine: Engine, but: Collection[str]) -> list[Conversation]:
    every = await asyncio.to_thread(engine.history.conversations)
    return [one for one in every if one.belongs_to not in but]


def _unknown(
    engine: Engine, given: str, known: Sequence[Conversation], forgotten: Collection[str]
) -> NotFound:
    if names := meant(given, forgotten):
        return NotFound(
            f"The conversation {min(names)} is forgotten.",
            advice=f"`mindhold history forget {min(names)} --lift` lets it be indexed again.",
        )
    if not engine.policy.history.enabled:
        return NotFound(
            f"No conversation {given.strip()!r} is known: past conversations are switched off.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    one = _meant(given, known, silent=True)
    if one is not None and is_empty(one):
        return NotFound(f"{one.file} is no conversation: nothing in it can be read as one.")
    if one is not None:
        return NotFound(
            f"The conversation {one.session_id} is left out.",
            advice="It is of what history.exclude or capture.exclude name, or a call of Mindhold's own.",
        )
    return NotFound(
        f"No conversation {given.strip()!r} is known.",
        advice="`mindhold history timeline` lists them; `mindhold history index` reads what is new.",
    )


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
        told = "\n  ".join([*named, *([f"and {more} more"] if more > 0 else [])])
        raise InvalidInput(
            f"{wanted!r} is part of several conversations:\n  {told}", advice="Give more of it."
        )
    return found[0]


def _told(one: Conversation) -> str:
    when = one.ended or one.started
    about = [f"{when:%Y-%m-%d}" if when else "", one.project or one.folder]
    return f"{one.session_id} ({', '.join(filter(None, about))})"
