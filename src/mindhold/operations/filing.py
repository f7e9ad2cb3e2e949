"""The operation by which an assistant stores: it says what, and where it is from; the rest is found out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mindhold.engine.conversations import note_call
from mindhold.engine.doings import Done
from mindhold.engine.filing import Said, Source, log_message, place, states_profile
from mindhold.engine.message_session import session_name
from mindhold.engine.profile import learn
from mindhold.engine.scope_choice import Placed
from mindhold.engine.text.hashtags import hashtags
from mindhold.engine.text.redact import redact
from mindhold.model.memory import Kind
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.messages import MessageType
from mindhold.operations.writing import REMEMBER, RememberInput, RememberResult

STORE_NAME = "store"


class StoreInput(Input):
    """What to store. `source` decides as what: conversation, summary, user_profile; anything else is a note.

    Without a scope it goes where it belongs: into the active one, else into the one that it speaks of by name or keyword.
    Hashtags in the text are tags.
    """

    content: str
    scope: str | None = None
    create_scope: bool = False  # make the scope when there is none of that name
    tags: list[str] = []
    source: str = ""
    speaker: MessageType = Field(default="user", description="Who said it, of a message.")
    conversation: str | None = None  # the call's own when not given
    dialect: str = ""


class StoreResult(Output):
    """What became of it, and where it is. `reason` says why in that scope, where none was named."""

    outcome: Literal["stored", "duplicate", "noise"]
    created: bool
    stored_as: Literal["message", "summary", "profile", "note"]
    scope: str
    id: str | None = None
    reason: str = ""
    tags: list[str] = []
    parts: list[str] = []
    superseded: list[str] = []
    redacted: list[str] = []  # kinds of secrets and personal data that were replaced
    quarantined: bool = False
    embedded: bool = False
    notice: str = ""


async def _store(call: Call, given: StoreInput) -> StoreResult:
    source = given.source.strip().casefold()
    tags = (*given.tags, *hashtags(given.content))
    unfiled = not (source or tags or given.scope)
    if source == Source.PROFILE or (unfiled and states_profile(given.content)):
        return await _learned(call, given)
    found = await place(call.engine, given.content, tags, scope=given.scope, create=given.create_scope)
    if source == Source.CONVERSATION:
        return await _logged(call, given, found, tags)
    told = source == Source.SUMMARY
    remembered = await REMEMBER.run(
        call,
        RememberInput(
            content=given.content,
            kind=Kind.CONTEXT if told else Kind.NOTE,
            scope=found.scope,
            tags=list(tags),
            source="" if source == Source.NOTE else source if told else given.source,
            dialect=given.dialect,
            conversation=given.conversation,
        ),
    )
    return _answer(remembered, "summary" if told else "note", found)


async def _logged(call: Call, given: StoreInput, found: Placed, tags: tuple[str, ...]) -> StoreResult:
    named = session_name(call.engine, given.conversation)
    said = Said(given.content, found.scope, given.speaker, named or call.conversation, tags)
    kept = await log_message(call.engine, said, agent=call.agent)
    if named and named != call.conversation:  # of its own the door tells
        note_call(call.engine, named, Done(STORE_NAME, stored=(kept.memory.id,)), agent=call.agent)
    return StoreResult(
        outcome="stored",
        created=True,
        stored_as="message",
        scope=found.scope,
        id=kept.memory.id,
        reason=found.reason,
        tags=list(kept.memory.tags),
        redacted=list(kept.redacted),
        quarantined=bool(kept.suspicious),
        embedded=kept.embedded,
        notice="" if kept.embedded else call.engine.meaning.reason,
    )


async def _learned(call: Call, given: StoreInput) -> StoreResult:
    """As entries of the profile. What it is filed under is the profile's own affair."""
    conversation = given.conversation or call.conversation
    learned = await learn(call.engine, given.content, agent=call.agent, conversation=conversation)
    first = learned.memories[0]
    new = any(one.what != "unchanged" for one in learned.changes)
    replaced = [one.label for one in learned.changes if one.what == "replaced"]
    embedded = all(one.embedded_by for one in learned.memories)
    notices = (
        f"It replaces what was known of {', '.join(replaced)}; `mindhold profile history` has that."
        if replaced
        else "",
        "" if embedded else call.engine.meaning.reason,
    )
    return StoreResult(
        outcome="stored" if new else "duplicate",
        created=new,
        stored_as="profile",
        scope=first.scope,
        id=first.id,
        reason="the profile is everybody's" if given.scope is None else "",
        tags=list(first.tags),
        parts=[one.id for one in learned.memories] if len(learned.memories) > 1 else [],
        redacted=[one.kind for one in redact(given.content).found] if call.engine.policy.redact else [],
        embedded=embedded,
        notice=" ".join(filter(None, notices)),
    )


def _answer(told: RememberResult, stored_as: Literal["summary", "note"], found: Placed) -> StoreResult:
    assert told.outcome in ("stored", "duplicate", "noise")  # a failure was raised
    return StoreResult(
        outcome=told.outcome,
        created=told.created,
        stored_as=stored_as,
        scope=told.memory.scope if told.memory else found.scope,
        id=told.id,
        reason=found.reason,
        tags=told.memory.tags if told.memory else [],
        parts=told.parts,
        superseded=told.superseded,
        redacted=list(told.redacted),
        quarantined=told.quarantined,
        embedded=told.embedded,
        notice=told.notice,
    )


STORE = Operation(
    STORE_NAME,
    "Store what an assistant is told, where and as what it belongs.",
    StoreInput,
    StoreResult,
    _store,
    Effect.WRITES,
)
