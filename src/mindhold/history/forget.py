"""Forgets a conversation for good: its index, its archive and everything derived from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindhold.capture.capture import CURSOR_PREFIX, CaptureEvent, cursor_key
from mindhold.capture.documents import erase_from_documents
from mindhold.capture.journal import PENDING_NAMESPACE, drop_erased_of
from mindhold.conversations.recap_queue import with_derived
from mindhold.conversations.sessions import (
    CONVERSATION_NAMESPACE,
    DOCUMENT,
    MOST_CONVERSATIONS,
    clean_conversation_name,
    conversation_of,
)
from mindhold.engine import Engine
from mindhold.history.archive_room import archive_name, archive_prefix
from mindhold.history.conversation import (
    MOST_NAMED,
    PastConversationView,
    conversation_named,
    files_of,
    is_exactly,
)
from mindhold.history.index_guard import (
    FILES,
    FORGOTTEN_NAMESPACE,
    MOST,
    PART_OF,
    forgotten_named,
    is_known_by_name,
    note_forgotten,
    wait_for_index_turn,
)
from mindhold.history.preparation import only_its_name
from mindhold.locks import wait_for_claim
from mindhold.memories.forget import erase
from mindhold.memories.hit_context import HIDDEN, shortened
from mindhold.memories.views import ReceiptView
from mindhold.model.errors import InvalidInput, NotFound, Refused, StoreBusy
from mindhold.model.job import Entry
from mindhold.model.lifecycle import is_kept_for_good
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import IndexedConversation
from mindhold.ports.store import Receipt

AGENT = "agent-"  # how a sub-agent's file is called
CONVERSATION, PASSAGES, COPIES = "index: conversations", "index: passages", "archive"  # in the receipt
CAPTURES, MEMORIES = "capture notes", "memories"
SOURCES = ("claude", "codex", "gemini", "cursor")
BEGUN = "It is noted as forgotten, so that nothing more of it is kept, but it is not all removed yet."


@dataclass(frozen=True, slots=True)
class ConversationTraces:
    """All that there is of a conversation. `kept` are memories that go only by force.

    `repeated` are others that have entries of it, resumed or forked: they stay. `already`: it was forgotten before.
    """

    session_id: str
    files: tuple[IndexedConversation, ...]
    passages: int
    memories: tuple[Memory, ...]
    kept: tuple[Memory, ...]
    archived: tuple[str, ...]  # their names
    captured: tuple[str, ...]  # names of files that captures may have read
    repeated: tuple[IndexedConversation, ...] = ()
    already: bool = False

    @property
    def originals(self) -> tuple[Path, ...]:
        """The transcripts that are there, which aren't ours."""
        return tuple(one.file for one in self.files if one.file.is_file())


@dataclass(frozen=True, slots=True)
class ForgottenConversation:
    """What went, with the proof, and what is left because it isn't ours."""

    doomed: ConversationTraces
    receipt: Receipt
    notice: str = ""


async def conversation_traces(engine: Engine, session: str, *, force: bool) -> ConversationTraces:
    """Without touching any of it. Raises NotFound, InvalidInput listing the candidates or for a sub-agent's, Refused."""
    return await _doomed(engine, await _session_named(engine, session), force=force, counting=True)


async def forget_conversation(engine: Engine, session: str, *, force: bool = False) -> ForgottenConversation:
    """In an order in which a second try finishes what a first one began: from its first step on nothing comes back.

    Raises NotFound, InvalidInput, Refused, StoreBusy while it is captured, or the index written, for very long.
    """
    first = await _doomed(engine, await _session_named(engine, session), force=force)
    await _note(engine, first)
    try:
        captures = await _drop_captures(engine, first)
        doomed = await _doomed(engine, first.session_id, force=force)  # with what was captured meanwhile
        receipt, unwritten = await _erased(engine, doomed)
        async with wait_for_index_turn(engine):
            copies = await asyncio.to_thread(_archived, engine, doomed.session_id, doomed.files)
            removed, left = await asyncio.to_thread(_remove, engine, doomed.session_id, copies)
    except StoreBusy as error:
        raise StoreBusy(
            f"{error.message} {BEGUN}",
            advice=f"`mindhold history forget {first.session_id}` again finishes it.",
        ) from error
    after = await _doomed(engine, first.session_id, force=force)
    left |= {
        CAPTURES: await _captures_left(engine, doomed),
        MEMORIES: max(len(after.memories), receipt.remaining.get(MEMORIES, 0)),
    }
    receipt = Receipt(
        receipt.ids,
        {MEMORIES: 0, **receipt.removed, **removed, CAPTURES: captures},
        {**receipt.remaining, **left},
    )
    # A pass may have let go of some files meanwhile.
    files = {one.file: one for one in (*first.files, *doomed.files)}
    told = replace(doomed, files=tuple(files.values()), repeated=first.repeated, already=first.already)
    return ForgottenConversation(replace(told, passages=removed[PASSAGES]), receipt, notice=unwritten)


async def unforget_conversation(engine: Engine, session: str) -> str:
    """Let a forgotten conversation be indexed and captured again; its id. What was removed is found again by that, or not.

    Raises NotFound for one that isn't forgotten, Refused, StoreBusy.
    """
    _check_owner(engine)
    notes = await _notes(engine)
    found = forgotten_named(session, [name for name, note in notes.items() if PART_OF not in note.value])
    if not found:
        raise NotFound(f"No forgotten conversation is called {session!r}.", advice="Give its id.")
    session_id = _only(session, found)
    parts = [name for name, note in notes.items() if note.value.get(PART_OF) == session_id]
    async with wait_for_index_turn(engine):
        known = await asyncio.to_thread(engine.history.conversations)
        silent = [one.row for one in known if one.silent and one.belongs_to == session_id]
        await asyncio.to_thread(engine.history.remove, silent)
        names = {clean_conversation_name(engine, name) for name in (session_id, *parts)}
        await drop_erased_of(engine, names, since=notes[session_id].created)
        for name in (*parts, session_id):  # its own last: until then it can be lifted again
            await engine.store.drop_entry(FORGOTTEN_NAMESPACE, name)
    return session_id


async def _session_named(engine: Engine, given: str) -> str:
    """Of those that there are, and of those of which a forgetting was begun: a second try finishes it."""
    _check_owner(engine)
    wanted = given.strip()
    folded = wanted.casefold()
    notes = await _notes(engine)
    for name, note in notes.items():
        if name.casefold() == folded:
            return _whole(name, str(note.value.get(PART_OF) or ""))
    found = {name for name, note in notes.items() if folded in name.casefold() and PART_OF not in note.value}
    try:
        one = await conversation_named(engine, given, silent=True)
    except NotFound:
        if not found and not await _is_known(engine, wanted):
            raise
        found = found or {wanted}
    else:
        session_id = _whole(one.session_id, one.part_of)
        found = {session_id} if is_exactly(given, one) else {*found, session_id}
    return _only(given, sorted(found))


def _check_owner(engine: Engine) -> None:
    """Who speaks for one agent is shown no conversation, and would be told that nothing is left of it."""
    if engine.history.withheld:
        raise Refused(
            "Past conversations are the owner's, of all agents: this call is for one.",
            advice="Use the owner's key, and name no agent.",
        )


def _whole(name: str, part_of: str) -> str:
    if part_of:
        raise InvalidInput(
            f"{name} is a sub-agent's, of the conversation {part_of}: it is only forgotten with that.",
            advice=f"`mindhold history forget {part_of}` removes the conversation with all its sub-agents'.",
        )
    return name


def _only(given: str, found: Sequence[str]) -> str:
    if len(found) > 1:
        told = ", ".join(sorted(found)[:MOST_NAMED])
        raise InvalidInput(f"{given.strip()!r} is part of several: {told}.", advice="Give more of it.")
    return found[0]


async def _notes(engine: Engine) -> dict[str, Entry]:
    return {
        note.key: note
        for note in await engine.store.entries(FORGOTTEN_NAMESPACE, now=engine.clock(), limit=MOST)
    }


async def _is_known(engine: Engine, session_id: str) -> bool:
    """Whether memories, a copy or a sub-agent's tell of a conversation that the index doesn't know."""
    where = Filter(viewer=EVERYONE, conversation=session_id, statuses=ANY_STATUS)
    if not session_id or await engine.store.count(where, most=1):
        return bool(session_id)
    known = await asyncio.to_thread(engine.history.conversations)
    return bool(files_of(session_id, known) or await asyncio.to_thread(_archived, engine, session_id, ()))


async def _doomed(
    engine: Engine, session_id: str, *, force: bool, counting: bool = False
) -> ConversationTraces:
    """Passages are only counted where somebody wants to know."""
    known = await asyncio.to_thread(engine.history.conversations)
    notes = await _notes(engine)
    files = tuple(files_of(session_id, known))
    parts = [name for name, note in notes.items() if note.value.get(PART_OF) == session_id]
    found = await _memories(engine, session_id, files, parts)
    kept = () if force else tuple(one for one in found if is_kept_for_good(one))
    spared = {one.id for one in kept}
    memories = {one.id: one for one in found if one.id not in spared}
    memories = await with_derived(engine, memories.values())
    noted = notes[session_id].value.get(FILES, ()) if session_id in notes else ()
    return ConversationTraces(
        session_id,
        files,
        await asyncio.to_thread(_passages, engine, files) if counting else 0,
        tuple(memories.values()),
        kept,
        await asyncio.to_thread(_archived, engine, session_id, files),
        tuple(dict.fromkeys([f"{session_id}.jsonl", *(one.file.name for one in files), *noted])),
        await asyncio.to_thread(_repeated, engine, files, known),
        already=session_id in notes,
    )


async def _memories(
    engine: Engine, session_id: str, files: Sequence[IndexedConversation], parts: Sequence[str]
) -> list[Memory]:
    """All that it left, with the parts of the long texts that were stored in it; of every agent."""
    found: dict[str, Memory] = {}
    names = {
        clean_conversation_name(engine, name)
        for name in (session_id, *(one.session_id for one in files), *parts)
    }
    for name in names:
        found |= await _said_in(engine, name)
    listed = await engine.store.entries(CONVERSATION_NAMESPACE, now=engine.clock(), limit=MOST_CONVERSATIONS)
    agents = {str(one.value["agent"]) for one in listed if one.value.get("conversation") in names}
    for each in sorted({one.agent for one in found.values()} | agents):
        talk = await conversation_of(engine, clean_conversation_name(engine, session_id), agent=each)
        for first in talk.documents if talk else ():
            found |= await _said_in(engine, DOCUMENT + first)
    return list(found.values())


async def _said_in(engine: Engine, conversation: str) -> dict[str, Memory]:
    where = Filter(viewer=EVERYONE, conversation=conversation, statuses=ANY_STATUS)
    return {one.id: one async for batch in engine.store.scan(where) for one in batch}


async def _erased(engine: Engine, doomed: ConversationTraces) -> tuple[Receipt, str]:
    """The memories, and words about documents that still show some."""
    if not doomed.memories:
        return Receipt((), {}, {}), ""
    gone = await erase(engine, [one.id for one in doomed.memories], agent=EVERYONE, force=True)
    assert gone.receipt is not None
    return await erase_from_documents(engine, gone.receipt, gone.memories)


def _passages(engine: Engine, files: Sequence[IndexedConversation]) -> int:
    return sum(len(engine.history.passages_of(one.row)) for one in files)


def _archived(engine: Engine, session_id: str, files: Sequence[IndexedConversation]) -> tuple[str, ...]:
    """Also copies of files that the index doesn't know any more, and those of files that were replaced."""
    names = {archive_name(one) for one in files}
    starts = tuple(archive_prefix(source, session_id) for source in SOURCES)
    return tuple(name for name in engine.archive.sizes() if name in names or name.startswith(starts))


def _repeated(
    engine: Engine, files: Sequence[IndexedConversation], known: Sequence[IndexedConversation]
) -> tuple[IndexedConversation, ...]:
    """The other sessions' that have entries of these files."""
    own = {one.row for one in files}
    shared = engine.history.sharing(own)
    found = {one.belongs_to: one for one in known if one.row in shared and not one.silent}
    return tuple(found.values())


async def _note(engine: Engine, doomed: ConversationTraces) -> None:
    for one in doomed.files:
        if one.part_of:
            value = {PART_OF: doomed.session_id}
            await engine.store.put_entry(Entry(FORGOTTEN_NAMESPACE, one.session_id, value, engine.clock()))
    await note_forgotten(engine, doomed.session_id, files=doomed.captured)


async def _drop_captures(engine: Engine, doomed: ConversationTraces) -> int:
    """Where captures had read to and what they still had to store, after those that are at it are done."""
    dropped = 0
    for key in _capture_keys(engine, doomed):
        async with wait_for_claim(engine, CURSOR_PREFIX + key) as mine:
            if not mine:
                raise StoreBusy("A capture of the conversation is under way.")
            if await engine.store.cursor(CURSOR_PREFIX + key) is not None:
                await engine.store.set_cursor(CURSOR_PREFIX + key, None)
                dropped += 1
            dropped += await engine.store.drop_entry(PENDING_NAMESPACE, key)
    return dropped


async def _captures_left(engine: Engine, doomed: ConversationTraces) -> int:
    left = 0
    for key in _capture_keys(engine, doomed):
        left += await engine.store.cursor(CURSOR_PREFIX + key) is not None
        left += await engine.store.entry(PENDING_NAMESPACE, key, now=engine.clock()) is not None
    return left


def _capture_keys(engine: Engine, doomed: ConversationTraces) -> list[str]:
    """Of all that belongs to it, as hooks and people name that."""
    session = clean_conversation_name(engine, doomed.session_id)
    found: dict[str, None] = {}
    for name in doomed.captured:
        stem = Path(name).stem
        for conversation, subagent in ((session, ""), (session, stem.removeprefix(AGENT)), (stem, "")):
            found[cursor_key(CaptureEvent(conversation, name, "", "", subagent=subagent))] = None
    return list(found)


def _remove(engine: Engine, session_id: str, copies: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """From the index and the archive: what went, and what a second look finds. Needs the turn.

    Of a file whose name doesn't tell that it is of this conversation it stays in mind that it is, so that nobody reads it again.
    """
    files = files_of(session_id, engine.history.conversations())
    rows = [one.row for one in files]
    passages = engine.history.remove(rows) if rows else 0
    for name in copies:
        engine.archive.remove(name)
    silent = [
        replace(only_its_name(one), row=0, cursor=one.cursor)
        for one in files
        if not one.gone and one.cursor.offset and not is_known_by_name(one, {session_id})
    ]
    engine.history.put_many([(one, (), b"", (), False) for one in silent])
    there = [one for one in files_of(session_id, engine.history.conversations()) if not one.silent]
    copies_left = len(_archived(engine, session_id, files))
    removed = {
        CONVERSATION: sum(not one.silent for one in files) - len(there),
        PASSAGES: passages,
        COPIES: len(copies) - copies_left,
    }
    left = sum(len(engine.history.passages_of(row)) for row in {*rows, *(one.row for one in there)})
    return removed, {CONVERSATION: len(there), PASSAGES: left, COPIES: copies_left}


LONGEST_SHOWN = 200  # characters of a memory that would go
MOST_SHOWN = 50  # of them


class ForgetConversationInput(Input):
    """Which one. `preview` only tells what would go; `lift` lets a forgotten one be indexed and captured again."""

    session: str
    force: bool = False
    preview: bool = False
    lift: bool = False


class DoomedView(Output):
    """A memory that goes, or that stays because it is kept for good."""

    id: str
    content: str
    kind: str
    scope: str


def _doomed_view(memory: Memory) -> DoomedView:
    content = "(hidden)" if memory.status in HIDDEN else shortened(memory, LONGEST_SHOWN).content
    return DoomedView(id=memory.id, content=content, kind=memory.kind, scope=memory.scope)


class ForgetConversationResult(Output):
    """What would go or went. The receipt is there once it has; `originals` stay, for they are another program's.

    `repeated_in` are other conversations that have entries of it, resumed or forked: they stay until they are forgotten too.
    """

    session_id: str
    forgotten: bool
    already: bool = False  # it was forgotten before
    lifted: bool = False
    conversations: list[PastConversationView] = []
    passages: int = 0
    archived: int = 0
    memories: list[DoomedView] = []
    memory_count: int = 0
    kept: list[DoomedView] = []
    originals: list[str] = []
    repeated_in: list[PastConversationView] = []
    receipt: ReceiptView | None = None
    notice: str = ""

    @classmethod
    def of(cls, doomed: ConversationTraces, *, forgotten: bool) -> ForgetConversationResult:
        """What there is of it."""
        return cls(
            session_id=doomed.session_id,
            forgotten=forgotten,
            conversations=[PastConversationView.of(one) for one in doomed.files],
            passages=doomed.passages,
            archived=len(doomed.archived),
            memories=[] if forgotten else [_doomed_view(one) for one in doomed.memories[:MOST_SHOWN]],
            memory_count=len(doomed.memories),
            kept=[_doomed_view(one) for one in doomed.kept[:MOST_SHOWN]],
            originals=[str(file) for file in doomed.originals],
            repeated_in=[PastConversationView.of(one) for one in doomed.repeated],
            already=doomed.already,
        )


async def _forget(context: Context, request: ForgetConversationInput) -> ForgetConversationResult:
    """Remove a past conversation and what was derived from it for good, with proof; it doesn't come back."""
    if request.lift and (request.preview or request.force):
        raise InvalidInput("`lift` removes nothing: there is nothing to preview or to force.")
    if request.lift:
        session_id = await unforget_conversation(context.engine, request.session)
        return ForgetConversationResult(session_id=session_id, forgotten=False, lifted=True)
    if request.preview:
        doomed = await conversation_traces(context.engine, request.session, force=request.force)
        return ForgetConversationResult.of(doomed, forgotten=False)
    gone = await forget_conversation(context.engine, request.session, force=request.force)
    told = ForgetConversationResult.of(gone.doomed, forgotten=True)
    return told.model_copy(update={"receipt": ReceiptView.of(gone.receipt), "notice": gone.notice})


FORGET_CONVERSATION = operation("forget_conversation", _forget, destroys=True, owner_only=True)
