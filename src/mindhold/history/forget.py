"""Forgets a conversation for good: its index rows, its archived copies and everything derived from it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindhold.capture.capture import CURSOR_PREFIX, cursor_key
from mindhold.capture.claude_md import erase_from_documents
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
from mindhold.history.archive_space import archive_name, archive_prefix
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
from mindhold.projects.summary_sources import SummaryRewrite, apply_rewrite, rewrites_without

AGENT = "agent-"  # prefix of a sub-agent's file name
CONVERSATION, PASSAGES, COPIES = "index: conversations", "index: passages", "archive"  # in the receipt
CAPTURES, MEMORIES, SUMMARIES = "capture notes", "memories", "summary versions"
SOURCES = ("claude", "codex", "gemini", "cursor")
BEGUN = "It is noted as forgotten, so that nothing more of it is kept, but it is not all removed yet."


@dataclass(frozen=True, slots=True)
class ConversationTraces:
    """Everything that exists of a conversation.

    `kept` are memories that are only removed with force. `repeated` are resumed or forked conversations that
    share entries with it: they stay. `already`: it was forgotten before.
    """

    session_id: str
    files: tuple[IndexedConversation, ...]
    passages: int
    memories: tuple[Memory, ...]
    kept: tuple[Memory, ...]
    archived: tuple[str, ...]  # names of archived copies
    captured: tuple[str, ...]  # names of files that captures may have read
    repeated: tuple[IndexedConversation, ...] = ()
    already: bool = False
    summaries: tuple[SummaryRewrite, ...] = ()  # of projects that its words were worked into


async def _remove_conversation(
    engine: Engine, session: str, *, force: bool
) -> tuple[ConversationTraces, Receipt, str]:
    """Remove a conversation. A second call finishes an interrupted first one; nothing comes back in between.

    Returns what was removed, the receipt, and a notice about documents that still show some of it. Raises NotFound, InvalidInput, Refused, StoreBusy if a capture or an index run takes too long.
    """
    first = await _doomed(engine, await _session_named(engine, session), force=force)
    await _note(engine, first)
    try:
        captures = await _drop_captures(engine, first)
        doomed = await _doomed(engine, first.session_id, force=force)  # with later captures
        receipt, unwritten = await _erased(engine, doomed)
        async with wait_for_index_turn(engine):
            copies = await asyncio.to_thread(_archived, engine, doomed.session_id, doomed.files)
            removed, remaining = await asyncio.to_thread(_remove, engine, doomed.session_id, copies)
    except StoreBusy as error:
        raise StoreBusy(
            f"{error.message} {BEGUN}",
            advice=f"`mindhold history forget {first.session_id}` again finishes it.",
        ) from error
    after = await _doomed(engine, first.session_id, force=force)
    remaining |= {
        CAPTURES: await _captures_left(engine, doomed),
        MEMORIES: max(len(after.memories), receipt.remaining.get(MEMORIES, 0)),
    }
    if doomed.summaries:
        removed[SUMMARIES] = _count_versions(doomed.summaries)
        remaining[SUMMARIES] = _count_versions(after.summaries)
    receipt = Receipt(
        receipt.ids,
        {MEMORIES: 0, **receipt.removed, **removed, CAPTURES: captures},
        {**receipt.remaining, **remaining},
    )
    # An index pass may have dropped some files in the meantime.
    files = {conversation.file: conversation for conversation in (*first.files, *doomed.files)}
    traces = replace(doomed, files=tuple(files.values()), repeated=first.repeated, already=first.already)
    return replace(traces, passages=removed[PASSAGES]), receipt, unwritten


async def unforget_conversation(engine: Engine, session: str) -> str:
    """Allow a forgotten conversation to be indexed and captured again, and return its id.

    Nothing is restored; transcripts that still exist are read again. Raises NotFound if it isn't forgotten,
    Refused, StoreBusy.
    """
    _check_owner(engine)
    notes = await _notes(engine)
    matches = forgotten_named(session, [name for name, note in notes.items() if PART_OF not in note.value])
    if not matches:
        raise NotFound(f"No forgotten conversation is called {session!r}.", advice="Give its id.")
    session_id = _only(session, matches)
    parts = [name for name, note in notes.items() if note.value.get(PART_OF) == session_id]
    async with wait_for_index_turn(engine):
        conversations = await asyncio.to_thread(engine.history.conversations)
        silent = [
            conversation.row
            for conversation in conversations
            if conversation.silent and conversation.belongs_to == session_id
        ]
        await asyncio.to_thread(engine.history.remove, silent)
        names = {clean_conversation_name(engine, name) for name in (session_id, *parts)}
        await drop_erased_of(engine, names, since=notes[session_id].created)
        for name in (*parts, session_id):  # its own note last, so that an interrupted call can be repeated
            await engine.store.drop_entry(FORGOTTEN_NAMESPACE, name)
    return session_id


async def _session_named(engine: Engine, given: str) -> str:
    """Resolve a name to a session id, among existing conversations and those whose removal was begun."""
    _check_owner(engine)
    session_name = given.strip()
    folded = session_name.casefold()
    notes = await _notes(engine)
    for name, note in notes.items():
        if name.casefold() == folded:
            return _whole(name, str(note.value.get(PART_OF) or ""))
    session_ids = {
        name for name, note in notes.items() if folded in name.casefold() and PART_OF not in note.value
    }
    try:
        conversation = await conversation_named(engine, given, silent=True)
    except NotFound:
        if not session_ids and not await _is_known(engine, session_name):
            raise
        session_ids = session_ids or {session_name}
    else:
        session_id = _whole(conversation.session_id, conversation.part_of)
        session_ids = {session_id} if is_exactly(given, conversation) else {*session_ids, session_id}
    return _only(given, sorted(session_ids))


def _check_owner(engine: Engine) -> None:
    """Refuse callers that speak for one agent: they see no conversations and would get a wrong receipt."""
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
        listing = ", ".join(sorted(found)[:MOST_NAMED])
        raise InvalidInput(f"{given.strip()!r} is part of several: {listing}.", advice="Give more of it.")
    return found[0]


async def _notes(engine: Engine) -> dict[str, Entry]:
    return {
        note.key: note
        for note in await engine.store.entries(FORGOTTEN_NAMESPACE, now=engine.clock(), limit=MOST)
    }


async def _is_known(engine: Engine, session_id: str) -> bool:
    """Whether memories, copies or sub-agents' files exist of a conversation that the index doesn't have."""
    where = Filter(viewer=EVERYONE, conversation=session_id, statuses=ANY_STATUS)
    if not session_id or await engine.store.count(where, most=1):
        return bool(session_id)
    conversations = await asyncio.to_thread(engine.history.conversations)
    return bool(
        files_of(session_id, conversations) or await asyncio.to_thread(_archived, engine, session_id, ())
    )


async def _doomed(
    engine: Engine, session_id: str, *, force: bool, counting: bool = False
) -> ConversationTraces:
    """Collect the traces of a session; passages are only counted on request."""
    conversations = await asyncio.to_thread(engine.history.conversations)
    notes = await _notes(engine)
    files = tuple(files_of(session_id, conversations))
    parts = [name for name, note in notes.items() if note.value.get(PART_OF) == session_id]
    names = {
        clean_conversation_name(engine, name)
        for name in (session_id, *(one.session_id for one in files), *parts)
    }
    all_memories = await _memories(engine, session_id, names)
    kept_memories = () if force else tuple(one for one in all_memories if is_kept_for_good(one))
    kept_ids = {one.id for one in kept_memories}
    memories = {one.id: one for one in all_memories if one.id not in kept_ids}
    memories = await with_derived(engine, memories.values())
    noted_files = notes[session_id].value.get(FILES, ()) if session_id in notes else ()
    return ConversationTraces(
        session_id,
        files,
        sum([len(await asyncio.to_thread(engine.history.passages_of, one.row)) for one in files if counting]),
        tuple(memories.values()),
        kept_memories,
        await asyncio.to_thread(_archived, engine, session_id, files),
        tuple(dict.fromkeys([f"{session_id}.jsonl", *(one.file.name for one in files), *noted_files])),
        await asyncio.to_thread(_repeated, engine, files, conversations),
        already=session_id in notes,
        summaries=tuple(await rewrites_without(engine, names, {one.scope for one in all_memories})),
    )


def _count_versions(summaries: Sequence[SummaryRewrite]) -> int:
    return sum(len(one.rewritten) + len(one.dropped) for one in summaries)


async def _memories(engine: Engine, session_id: str, names: Collection[str]) -> list[Memory]:
    """The memories of a session's names, with the parts of long texts that were stored in it; of every agent."""
    memories: dict[str, Memory] = {}
    for name in names:
        memories |= await _said_in(engine, name)
    entries = await engine.store.entries(CONVERSATION_NAMESPACE, now=engine.clock(), limit=MOST_CONVERSATIONS)
    agents = {str(one.value["agent"]) for one in entries if one.value.get("conversation") in names}
    for agent in sorted({one.agent for one in memories.values()} | agents):
        talk = await conversation_of(engine, clean_conversation_name(engine, session_id), agent=agent)
        for first in talk.documents if talk else ():
            memories |= await _said_in(engine, DOCUMENT + first)
    return list(memories.values())


async def _said_in(engine: Engine, conversation: str) -> dict[str, Memory]:
    where = Filter(viewer=EVERYONE, conversation=conversation, statuses=ANY_STATUS)
    return {memory.id: memory async for batch in engine.store.scan(where) for memory in batch}


async def _erased(engine: Engine, doomed: ConversationTraces) -> tuple[Receipt, str]:
    """Erase the memories, and summaries as they were; returns the receipt and a notice about documents that still show some."""
    for summary in doomed.summaries:
        await apply_rewrite(engine, summary)
    ids = [memory.id for memory in (*doomed.memories, *(one.record for one in doomed.summaries))]
    if not ids:
        return Receipt((), {}, {}), ""
    erased, receipt = await erase(engine, ids, agent=EVERYONE, force=True)
    return await erase_from_documents(engine, receipt, erased)


def _archived(engine: Engine, session_id: str, files: Sequence[IndexedConversation]) -> tuple[str, ...]:
    """The names of its copies, including those of replaced files and of files that the index doesn't have."""
    names = {archive_name(conversation) for conversation in files}
    starts = tuple(archive_prefix(source, session_id) for source in SOURCES)
    return tuple(name for name in engine.archive.sizes() if name in names or name.startswith(starts))


def _repeated(
    engine: Engine, files: Sequence[IndexedConversation], known: Sequence[IndexedConversation]
) -> tuple[IndexedConversation, ...]:
    """Conversations of other sessions that share entries with these files."""
    own = {conversation.row for conversation in files}
    sharing_rows = engine.history.sharing(own)
    others = {
        conversation.belongs_to: conversation
        for conversation in known
        if conversation.row in sharing_rows and not conversation.silent
    }
    return tuple(others.values())


async def _note(engine: Engine, doomed: ConversationTraces) -> None:
    for conversation in doomed.files:
        if conversation.part_of:
            value = {PART_OF: doomed.session_id}
            await engine.store.put_entry(
                Entry(FORGOTTEN_NAMESPACE, conversation.session_id, value, engine.clock())
            )
    await note_forgotten(engine, doomed.session_id, files=doomed.captured)


async def _drop_captures(engine: Engine, doomed: ConversationTraces) -> int:
    """Remove capture cursors and pending captures, after running captures are done."""
    dropped = 0
    for key in _capture_keys(engine, doomed):
        async with wait_for_claim(engine, CURSOR_PREFIX + key) as is_ours:
            if not is_ours:
                raise StoreBusy("A capture of the conversation is under way.")
            if await engine.store.cursor(CURSOR_PREFIX + key) is not None:
                await engine.store.set_cursor(CURSOR_PREFIX + key, None)
                dropped += 1
            dropped += await engine.store.drop_entry(PENDING_NAMESPACE, key)
    return dropped


async def _captures_left(engine: Engine, doomed: ConversationTraces) -> int:
    remaining = 0
    for key in _capture_keys(engine, doomed):
        remaining += await engine.store.cursor(CURSOR_PREFIX + key) is not None
        remaining += await engine.store.entry(PENDING_NAMESPACE, key, now=engine.clock()) is not None
    return remaining


def _capture_keys(engine: Engine, doomed: ConversationTraces) -> list[str]:
    """The capture keys of all its files, in every form that hooks and people use."""
    session = clean_conversation_name(engine, doomed.session_id)
    keys: dict[str, None] = {}
    for name in doomed.captured:
        stem = Path(name).stem
        for conversation, subagent in ((session, ""), (session, stem.removeprefix(AGENT)), (stem, "")):
            keys[cursor_key(conversation, name, subagent)] = None
    return list(keys)


def _remove(engine: Engine, session_id: str, copies: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Remove it from the index and the archive; returns the removed and the remaining counts.

    A file whose name doesn't show its conversation keeps a silent row, so that it isn't read again. The
    caller holds the index turn.
    """
    files = files_of(session_id, engine.history.conversations())
    rows = [conversation.row for conversation in files]
    passages = engine.history.remove(rows) if rows else 0
    for name in copies:
        engine.archive.remove(name)
    silent = [
        replace(only_its_name(conversation), row=0, cursor=conversation.cursor)
        for conversation in files
        if not conversation.gone
        and conversation.cursor.offset
        and not is_known_by_name(conversation, {session_id})
    ]
    engine.history.put_many([(conversation, (), b"", (), False) for conversation in silent])
    remaining = [
        conversation
        for conversation in files_of(session_id, engine.history.conversations())
        if not conversation.silent
    ]
    copies_left = len(_archived(engine, session_id, files))
    removed = {
        CONVERSATION: sum(not conversation.silent for conversation in files) - len(remaining),
        PASSAGES: passages,
        COPIES: len(copies) - copies_left,
    }
    passages_left = sum(
        len(engine.history.passages_of(row))
        for row in {*rows, *(conversation.row for conversation in remaining)}
    )
    return removed, {CONVERSATION: len(remaining), PASSAGES: passages_left, COPIES: copies_left}


LONGEST_SHOWN = 200  # characters of a memory that are shown
MOST_SHOWN = 50  # memories that are shown


class ForgetConversationInput(Input):
    """A conversation to forget. `preview` only shows what would go; `lift` lets a forgotten one be indexed again."""

    session: str
    force: bool = False
    preview: bool = False
    lift: bool = False


class DoomedView(Output):
    """A memory that is removed, or that stays because it is kept for good."""

    id: str
    content: str
    kind: str
    scope: str


class SummaryChangeView(Output):
    """A project's summary whose versions hold words of the conversation: without these they are written anew, or go."""

    project: str
    rewritten: list[int] = []
    dropped: list[int] = []


def _doomed_view(memory: Memory) -> DoomedView:
    content = "(hidden)" if memory.status in HIDDEN else shortened(memory, LONGEST_SHOWN).content
    return DoomedView(id=memory.id, content=content, kind=memory.kind, scope=memory.scope)


class ForgetConversationResult(Output):
    """What would be or was removed.

    There is a receipt after the removal. `originals` stay because they belong to another program.
    `repeated_in` are resumed or forked conversations that share entries with it: they stay until they are
    forgotten too.
    """

    session_id: str
    forgotten: bool
    already: bool = False  # forgotten before this call
    lifted: bool = False
    conversations: list[PastConversationView] = []
    passages: int = 0
    archived: int = 0
    memories: list[DoomedView] = []
    memory_count: int = 0
    kept: list[DoomedView] = []
    summaries: list[SummaryChangeView] = []
    originals: list[str] = []
    repeated_in: list[PastConversationView] = []
    receipt: ReceiptView | None = None
    notice: str = ""


def _result(
    traces: ConversationTraces, receipt: Receipt | None = None, notice: str = ""
) -> ForgetConversationResult:
    forgotten = receipt is not None
    return ForgetConversationResult(
        session_id=traces.session_id,
        forgotten=forgotten,
        conversations=[PastConversationView.of(one) for one in traces.files],
        passages=traces.passages,
        archived=len(traces.archived),
        memories=[] if forgotten else [_doomed_view(one) for one in traces.memories[:MOST_SHOWN]],
        memory_count=len(traces.memories),
        kept=[_doomed_view(one) for one in traces.kept[:MOST_SHOWN]],
        summaries=[
            SummaryChangeView(
                project=one.record.scope, rewritten=list(one.rewritten), dropped=list(one.dropped)
            )
            for one in traces.summaries
        ],
        originals=[str(one.file) for one in traces.files if one.file.is_file()],
        repeated_in=[PastConversationView.of(one) for one in traces.repeated],
        already=traces.already,
        receipt=ReceiptView.of(receipt) if receipt else None,
        notice=notice,
    )


async def _forget(context: Context, request: ForgetConversationInput) -> ForgetConversationResult:
    """Remove a past conversation and what was derived from it for good, with proof; it doesn't come back."""
    if request.lift and (request.preview or request.force):
        raise InvalidInput("`lift` removes nothing: there is nothing to preview or to force.")
    if request.lift:
        session_id = await unforget_conversation(context.engine, request.session)
        return ForgetConversationResult(session_id=session_id, forgotten=False, lifted=True)
    if request.preview:
        session_id = await _session_named(context.engine, request.session)
        traces = await _doomed(context.engine, session_id, force=request.force, counting=True)
        return _result(traces)
    traces, receipt, notice = await _remove_conversation(context.engine, request.session, force=request.force)
    return _result(traces, receipt, notice)


FORGET_CONVERSATION = operation("forget_conversation", _forget, destroys=True, owner_only=True)
