"""Operations on single past conversations, and on keeping them: the owner's alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mindhold.engine.core import Engine
from mindhold.engine.history.archiving import archive_history
from mindhold.engine.history.forgetting import forget_conversation, lift, what_would_go
from mindhold.engine.history.indexing import index_history
from mindhold.engine.history.origin import origin
from mindhold.engine.history.restoring import restore_conversation
from mindhold.engine.history.show import read_conversation
from mindhold.engine.history.status import history_state
from mindhold.engine.history.summarizing import summarize_conversation
from mindhold.model.errors import InvalidInput
from mindhold.operations.catalogue import Call, Effect, Operation, full_id
from mindhold.operations.history_forgetting import ForgetConversationInput, ForgetConversationResult
from mindhold.operations.history_forms import (
    ArchiveHistoryInput,
    ArchiveHistoryResult,
    ConversationView,
    HistoryStatusInput,
    HistoryStatusResult,
    OriginInput,
    OriginResult,
    PlaceView,
    RestoreConversationInput,
    RestoreConversationResult,
    ShowConversationInput,
    StretchView,
    SummarizeConversationInput,
    SummarizeConversationResult,
)
from mindhold.operations.views import ReceiptView


async def _show(call: Call, given: ShowConversationInput) -> StretchView:
    shown = await read_conversation(
        call.engine, given.session, around=given.around, after=given.after, most=given.limit
    )
    return StretchView.of(shown)


async def _origin(call: Call, given: OriginInput) -> OriginResult:
    memory_id = await full_id(call, given.id)
    found = await origin(call.engine, memory_id, agent=call.agent, most=given.limit)
    return OriginResult(
        id=found.memory.id,
        content=found.memory.content,
        kind=found.memory.kind,
        scope=found.memory.scope,
        created=found.memory.created,
        places=[PlaceView.of(place) for place in found.places],
        made_of=list(found.made_of),
        notice=found.told,
    )


async def _forget(call: Call, given: ForgetConversationInput) -> ForgetConversationResult:
    if given.lift and (given.preview or given.force):
        raise InvalidInput("`lift` removes nothing: there is nothing to preview or to force.")
    if given.lift:
        session_id = await lift(call.engine, given.session)
        return ForgetConversationResult(session_id=session_id, forgotten=False, lifted=True)
    if given.preview:
        doomed = await what_would_go(call.engine, given.session, force=given.force)
        return ForgetConversationResult.of(doomed, forgotten=False)
    gone = await forget_conversation(call.engine, given.session, force=given.force)
    told = ForgetConversationResult.of(gone.doomed, forgotten=True)
    return told.model_copy(update={"receipt": ReceiptView.of(gone.receipt), "notice": gone.notice})


async def _archive(call: Call, _given: ArchiveHistoryInput) -> ArchiveHistoryResult:
    engine = call.engine
    if not engine.policy.history.enabled:
        raise InvalidInput(
            "Past conversations are switched off: nothing is copied.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    await index_history(_unarchiving(engine), progress=call.progress)
    report = await archive_history(engine)
    copies = await asyncio.to_thread(engine.archive.all)
    return ArchiveHistoryResult.of(report, copies=len(copies), enabled=engine.policy.history.archive)


def _unarchiving(engine: Engine) -> Engine:
    """One pass that leaves the copies to us, who tell of them."""
    history = replace(engine.policy.history, archive=False)
    return replace(engine, policy=replace(engine.policy, history=history))


async def _restore(call: Call, given: RestoreConversationInput) -> RestoreConversationResult:
    restored = await restore_conversation(call.engine, given.session, given.to.expanduser().absolute())
    return RestoreConversationResult(
        session_id=restored.session_id, files=[str(file) for file in restored.files]
    )


async def _summarize(call: Call, given: SummarizeConversationInput) -> SummarizeConversationResult:
    summed = await summarize_conversation(call.engine, given.session)
    return SummarizeConversationResult(
        conversation=ConversationView.of(summed.conversation), notice=summed.notice
    )


async def _status(call: Call, _given: HistoryStatusInput) -> HistoryStatusResult:
    policy = call.engine.policy.history
    state = await history_state(call.engine)
    return HistoryStatusResult.of(
        state, enabled=policy.enabled, archive=policy.archive, room=policy.archive_room
    )


SHOW_CONVERSATION = Operation(
    "show_conversation",
    "A past conversation, or a part of it.",
    ShowConversationInput,
    StretchView,
    _show,
    Effect.READS,
    owner_only=True,
)
ORIGIN = Operation(
    "origin",
    "From a memory to the words that it came from.",
    OriginInput,
    OriginResult,
    _origin,
    Effect.READS,
    owner_only=True,
)
FORGET_CONVERSATION = Operation(
    "forget_conversation",
    "Remove a past conversation and what was derived from it for good, with proof; it doesn't come back.",
    ForgetConversationInput,
    ForgetConversationResult,
    _forget,
    Effect.DESTROYS,
    owner_only=True,
)
ARCHIVE_HISTORY = Operation(
    "archive_history",
    "Copy transcripts before the program that wrote them deletes them.",
    ArchiveHistoryInput,
    ArchiveHistoryResult,
    _archive,
    Effect.WRITES,
    owner_only=True,
)
RESTORE_CONVERSATION = Operation(
    "restore_conversation",
    "Write an archived transcript to a file, as it was.",
    RestoreConversationInput,
    RestoreConversationResult,
    _restore,
    Effect.WRITES,
    owner_only=True,
)
SUMMARIZE_CONVERSATION = Operation(
    "summarize_conversation",
    "Sum a past conversation up, and keep that.",
    SummarizeConversationInput,
    SummarizeConversationResult,
    _summarize,
    Effect.WRITES,
    owner_only=True,
)
HISTORY_STATUS = Operation(
    "history_status",
    "What of past conversations is indexed, kept and about to vanish.",
    HistoryStatusInput,
    HistoryStatusResult,
    _status,
    Effect.READS,
    owner_only=True,
)
