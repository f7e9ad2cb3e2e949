"""Forgetting a conversation: index, archive and all that was derived from it go for good, and it doesn't come back.

The transcript itself belongs to the program that wrote it, and stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recollect.engine.capture.alone import alone
from recollect.engine.capture.flow import CURSOR, Heard, cursor_key
from recollect.engine.capture.pending import PENDING
from recollect.engine.capture.rewriting import off_the_documents
from recollect.engine.conversations import DOCUMENT, called, conversation_of
from recollect.engine.core import Engine
from recollect.engine.forget import erase
from recollect.engine.history.archive_names import archive_name, begins
from recollect.engine.history.forgotten import DRAWER, MOST, note_forgotten
from recollect.engine.history.held import in_turn
from recollect.engine.history.naming import MOST_NAMED, conversation_named, files_of
from recollect.engine.history.recovering import drop_note
from recollect.model.entry import Entry
from recollect.model.errors import InvalidInput, NotFound
from recollect.model.life import is_kept_for_good
from recollect.model.memory import ANY_STATUS, Memory
from recollect.model.query import Filter
from recollect.ports.history import Conversation
from recollect.ports.store import Receipt

AGENT = "agent-"  # how a sub-agent's file is called
PART_OF = "part_of"  # in a note: the session that the sub-agent worked for
PASSAGES = "index: passages"  # in the receipt
SOURCES = ("claude", "codex", "gemini", "cursor")


@dataclass(frozen=True, slots=True)
class Doomed:
    """All that there is of a conversation. `kept` are memories that go only by force."""

    session_id: str
    files: tuple[Conversation, ...]
    passages: int
    memories: tuple[Memory, ...]
    kept: tuple[Memory, ...]
    archived: tuple[str, ...]  # their names

    @property
    def originals(self) -> tuple[Path, ...]:
        """The transcripts that are there, which aren't ours."""
        return tuple(one.file for one in self.files if one.file.is_file())


@dataclass(frozen=True, slots=True)
class ForgottenConversation:
    """What went, with the proof, and what is left because it isn't ours."""

    doomed: Doomed
    receipt: Receipt
    notice: str = ""


async def what_would_go(
    engine: Engine, session: str, *, agent: str, force: bool, counting: bool = True
) -> Doomed:
    """Without touching any of it; passages are only counted where somebody wants to know. Raises NotFound, InvalidInput listing the candidates."""
    try:
        session_id = (await conversation_named(engine, session, silent=True)).belongs_to
    except NotFound:
        session_id = session.strip()  # its memories or its copy may be all that is left of it
        if not await _is_known(engine, session_id, agent=agent):
            raise
    known = await asyncio.to_thread(engine.history.conversations)
    files = tuple(files_of(session_id, known))
    passages = 0
    for one in files if counting else ():
        passages += len(await asyncio.to_thread(engine.history.passages_of, one.row))
    found = await _memories(engine, session_id, files, agent=agent)
    kept = () if force else tuple(one for one in found if is_kept_for_good(one))
    spared = {one.id for one in kept}
    memories = {one.id: one for one in found if one.id not in spared}
    memories |= {one.id: one for one in await engine.store.derived_from(list(memories))}
    return Doomed(
        session_id,
        files,
        passages,
        tuple(memories.values()),
        kept,
        await asyncio.to_thread(_archived, engine, session_id, files),
    )


async def forget_conversation(
    engine: Engine, session: str, *, agent: str, force: bool = False
) -> ForgottenConversation:
    """In an order in which a second try finishes what a first one began: from its first step on nothing comes back.

    Raises NotFound, InvalidInput, StoreBusy while another process writes the index for very long.
    """
    doomed = await what_would_go(engine, session, agent=agent, force=force, counting=False)
    await _note(engine, doomed)
    async with in_turn(engine):
        captures = await _drop_captures(engine, doomed)
        # Once more: what was captured and indexed while we waited is there too.
        doomed = await what_would_go(engine, doomed.session_id, agent=agent, force=force, counting=False)
        receipt, unwritten = Receipt((), {}, {}), ""
        if doomed.memories:
            gone = await erase(engine, [one.id for one in doomed.memories], agent=agent, force=True)
            assert gone.receipt is not None
            receipt, unwritten = await off_the_documents(engine, gone.receipt, gone.memories)
        removed, left = await asyncio.to_thread(_remove, engine, doomed)
        for name in doomed.archived:
            await drop_note(engine, name)
    doomed = replace(doomed, passages=removed[PASSAGES])
    receipt = Receipt(
        receipt.ids,
        {**receipt.removed, **removed, "capture notes": captures},
        {**receipt.remaining, **left, "capture notes": 0},
    )
    return ForgottenConversation(doomed, receipt, notice=unwritten)


async def lift(engine: Engine, session: str) -> str:
    """Let a forgotten conversation be indexed and captured again; its id. What was removed is found again by that, or not.

    Raises NotFound for one that isn't forgotten.
    """
    wanted = session.strip().casefold()
    notes = await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST)
    whole = [note.key for note in notes if PART_OF not in note.value]
    exactly = [name for name in whole if name.casefold() == wanted]
    found = exactly or [name for name in whole if wanted and wanted in name.casefold()]
    if not found:
        raise NotFound(f"No forgotten conversation is called {session!r}.", advice="Give its id.")
    if len(found) > 1:
        told = ", ".join(sorted(found)[:MOST_NAMED])
        raise InvalidInput(
            f"{session!r} is part of several forgotten ones: {told}.", advice="Give more of it."
        )
    for note in notes:
        if found[0] in (note.key, note.value.get(PART_OF)):
            await engine.store.drop_entry(DRAWER, note.key)
    return found[0]


async def _is_known(engine: Engine, session_id: str, *, agent: str) -> bool:
    """Whether memories, a copy or a note tell of a conversation that the index doesn't know."""
    where = Filter(viewer=agent, conversation=session_id, statuses=ANY_STATUS)
    if not session_id or await engine.store.count(where, most=1):
        return bool(session_id)
    return bool(await asyncio.to_thread(_archived, engine, session_id, ()))


async def _memories(
    engine: Engine, session_id: str, files: Sequence[Conversation], *, agent: str
) -> list[Memory]:
    """All that it left, with the parts of the long texts that were stored in it; of every agent that the caller sees."""
    found: dict[str, Memory] = {}
    for name in dict.fromkeys((session_id, *(one.session_id for one in files))):
        found |= await _said_in(engine, called(engine, name), agent=agent)
    for each in dict.fromkeys((agent, *(one.agent for one in found.values()))):
        talk = await conversation_of(engine, called(engine, session_id), agent=each)
        for first in talk.documents if talk else ():
            found |= await _said_in(engine, DOCUMENT + first, agent=agent)
    return list(found.values())


async def _said_in(engine: Engine, conversation: str, *, agent: str) -> dict[str, Memory]:
    where = Filter(viewer=agent, conversation=conversation, statuses=ANY_STATUS)
    return {one.id: one async for batch in engine.store.scan(where) for one in batch}


def _archived(engine: Engine, session_id: str, files: Sequence[Conversation]) -> tuple[str, ...]:
    """Also copies of files that the index doesn't know any more."""
    names = {archive_name(one) for one in files}
    starts = tuple(begins(source, session_id) for source in SOURCES)
    return tuple(one.name for one in engine.archive.all() if one.name in names or one.name.startswith(starts))


async def _note(engine: Engine, doomed: Doomed) -> None:
    for one in doomed.files:
        if one.part_of:
            value = {PART_OF: doomed.session_id}
            await engine.store.put_entry(Entry(DRAWER, one.session_id, value, engine.clock()))
    await note_forgotten(engine, doomed.session_id)


async def _drop_captures(engine: Engine, doomed: Doomed) -> int:
    """Where captures had read to and what they still had to store, after those that are at it are done."""
    dropped = 0
    for heard in _heard(engine, doomed):
        key = cursor_key(heard)
        async with alone(engine, CURSOR + key):
            if await engine.store.cursor(CURSOR + key) is not None:
                await engine.store.set_cursor(CURSOR + key, None)
                dropped += 1
            dropped += await engine.store.drop_entry(PENDING, key)
    return dropped


def _heard(engine: Engine, doomed: Doomed) -> list[Heard]:
    """As hooks and people name what belongs to it."""
    session = called(engine, doomed.session_id)
    names = dict.fromkeys((f"{doomed.session_id}.jsonl", *(one.file.name for one in doomed.files)))
    found: list[Heard] = []
    for name in names:
        stem = Path(name).stem
        for conversation, subagent in dict.fromkeys(
            ((session, ""), (session, stem.removeprefix(AGENT)), (stem, ""))
        ):
            found.append(Heard(conversation, name, "", "", subagent=subagent))
    return found


def _remove(engine: Engine, doomed: Doomed) -> tuple[dict[str, int], dict[str, int]]:
    """From the index and the archive: what went, and what a second look finds."""
    rows = [one.row for one in doomed.files]
    passages = engine.history.remove(rows) if rows else 0
    copies = sum(engine.archive.remove(name) for name in doomed.archived)
    there = files_of(doomed.session_id, engine.history.conversations())
    left = sum(len(engine.history.passages_of(row)) for row in rows)
    removed = {"index: conversations": len(rows) - len(there), PASSAGES: passages, "archive": copies}
    remaining = {
        "index: conversations": len(there),
        PASSAGES: left,
        "archive": len(_archived(engine, doomed.session_id, doomed.files)),
    }
    return removed, remaining
