"""The store operation of the assistant contract: decides the scope and the kind of what is stored."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Literal

from pydantic import Field

from mindhold.conversations.activity import CallActivity
from mindhold.conversations.message_log import MessageType
from mindhold.conversations.messages import at_end, message_request, session_name
from mindhold.conversations.sessions import note_call
from mindhold.engine import Engine
from mindhold.memories.remember import REMEMBER
from mindhold.memories.views import Notice, ScopeName, View
from mindhold.memories.write import RememberInput, Verbatim, write
from mindhold.model.memory import Kind
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, created_ids, operation
from mindhold.profile.profile import learn
from mindhold.projects.placement import open_project
from mindhold.projects.scopes import ScopeChoice, choose_scope
from mindhold.text.keywords import hashtags
from mindhold.text.profile_facts import find_profile_fact, split_profile_sentences
from mindhold.text.redaction import redact

GENERAL = "general"  # the kind of a scope that an assistant creates by storing into it


class SourceKind(StrEnum):
    """Where a text comes from, which decides how it is stored; any other source makes it a note."""

    CONVERSATION = "conversation"
    SUMMARY = "summary"
    PROFILE = "user_profile"
    NOTE = "note"


async def scope_for(
    engine: Engine, text: str, tags: tuple[str, ...], *, scope: str | None, create: bool = False
) -> ScopeChoice:
    """Return the named scope, ignoring case, or else the scope that the text belongs to.

    Raises ScopeNotFound, Refused for a deactivated scope, InvalidInput for an invalid name.
    """
    if scope is not None:
        project = await open_project(engine, scope, create=create, writing=True, kind=GENERAL)
        return ScopeChoice(project.name)
    choice = choose_scope(text, tags, scopes=await engine.store.scopes(), active=engine.settings.scope)
    return replace(choice, scope=(await open_project(engine, choice.scope, writing=True)).name)


def states_profile(text: str) -> bool:
    """Whether every sentence plainly states something about the person who speaks."""
    sentences = split_profile_sentences(text)
    return bool(sentences) and all(find_profile_fact(sentence) is not None for sentence in sentences)


MESSAGES, NOTES, SUMMARIES, PROFILE = "messages", "notes", "summaries", "profile_facts"


async def by_source(engine: Engine, where: Filter) -> dict[str, int]:
    """Count messages (a long one once), summaries and profile facts; everything else is a note."""
    sources = await engine.store.tally(where, "source")
    messages = await engine.store.count(replace(where, turns=True))
    summaries, profile = (sources.get(source, 0) for source in (SourceKind.SUMMARY, SourceKind.PROFILE))
    rest = sum(sources.values()) - messages - summaries - profile
    return {MESSAGES: messages, NOTES: max(0, rest), SUMMARIES: summaries, PROFILE: profile}


STORE_NAME = "store"


class StoreInput(Input):
    """What to store. `source` decides as what: conversation, summary, user_profile; anything else is a note.

    Without a scope it goes where it belongs: into the active one, else into the one that it speaks of by name or keyword.
    Hashtags in the text are tags.
    """

    content: str = Field(description="The text.", examples=["The login page is done. #login"])
    scope: ScopeName = None
    create_scope: bool = Field(default=False, description="Create the scope if it does not exist.")
    tags: list[str] = Field(default=[], description="Tags.")
    source: str = Field(default="", description="Its source.", examples=["conversation"])
    speaker: MessageType = Field(default="user", description="Who said it, if it is a message.")
    conversation: str | None = Field(
        default=None, description="The conversation that it belongs to."
    )  # the call's own when not given
    dialect: str = Field(default="", description="The contract through which it was stored.")


class StoreResult(View):
    """What became of it, and where it is. `reason` says why in that scope, where none was named."""

    outcome: Literal["stored", "duplicate", "noise"] = Field(
        description="What was done with it.", examples=["stored"]
    )
    created: bool = Field(description="Whether something was created.", examples=[True])
    stored_as: Literal["message", "summary", "profile", "note"] = Field(examples=["message"])
    scope: str = Field(description="Its scope.", examples=["shop"])
    id: str | None = Field(default=None, description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    reason: str = ""
    tags: list[str] = Field(default=[], description="Tags.", examples=[["login"]])
    parts: list[str] = []
    superseded: list[str] = Field(default=[], description="Ids of the memories that it replaced.")
    redacted: list[str] = Field(
        default=[], description="Kinds of secrets and personal data that were replaced."
    )
    quarantined: bool = Field(
        default=False,
        description="Whether it reads like instructions: then it is stored but only shown by its id.",
    )
    embedded: bool = Field(default=False, description="Whether it has a vector already.", examples=[True])
    notice: Notice = ""


async def _store(context: Context, request: StoreInput) -> StoreResult:
    """Store what an assistant is told, where and as what it belongs."""
    source = request.source.strip().casefold()
    tags = (*request.tags, *hashtags(request.content))
    unfiled = not (source or tags or request.scope)
    if source == SourceKind.PROFILE or (unfiled and states_profile(request.content)):
        return await _learned(context, request)
    choice = await scope_for(
        context.engine, request.content, tags, scope=request.scope, create=request.create_scope
    )
    if source == SourceKind.CONVERSATION:
        return await _logged(context, request, choice, tags)
    is_summary = source == SourceKind.SUMMARY
    remembered = await REMEMBER.run(
        context,
        RememberInput(
            content=request.content,
            kind=Kind.CONTEXT if is_summary else Kind.NOTE,
            scope=choice.scope,
            tags=list(tags),
            source="" if source == SourceKind.NOTE else source if is_summary else request.source,
            dialect=request.dialect,
            conversation=request.conversation,
        ),
    )
    memory = remembered.memory
    return StoreResult.fill(
        remembered,
        stored_as="summary" if is_summary else "note",
        scope=memory.scope if memory else choice.scope,
        reason=choice.reason,
        tags=memory.tags if memory else [],
        redacted=list(remembered.redacted),
    )


STORE = operation(
    "store",
    _store,
    writes=True,
    needs_vectors=True,
    default_scope=True,
    stored_ids=lambda result: created_ids([result]),
)


async def _logged(
    context: Context, request: StoreInput, choice: ScopeChoice, tags: tuple[str, ...]
) -> StoreResult:
    session = session_name(context.engine, request.conversation)
    message = message_request(
        context.engine,
        request.speaker,
        request.content,
        project=choice.scope,
        conversation=session or context.conversation,
    )
    message = await at_end(context.engine, message, tags=list(tags), source=SourceKind.CONVERSATION.value)
    result = await write(context.engine, message, agent=context.agent, verbatim=Verbatim())
    memory = result.stored_memory()
    if session and session != context.conversation:  # the interface notes the call's own conversation
        note_call(context.engine, session, CallActivity(STORE_NAME, stored=(memory.id,)), agent=context.agent)
    return StoreResult(
        outcome="stored",
        created=True,
        stored_as="message",
        scope=choice.scope,
        id=memory.id,
        reason=choice.reason,
        tags=list(memory.tags),
        redacted=[finding.kind for finding in result.redacted],
        quarantined=bool(result.suspicious),
        embedded=result.embedded,
        notice="" if result.embedded else context.engine.vector_source.reason,
    )


async def _learned(context: Context, request: StoreInput) -> StoreResult:
    """Store the text as profile entries; the profile decides what they are filed under."""
    conversation = request.conversation or context.conversation
    learned = await learn(context.engine, request.content, agent=context.agent, conversation=conversation)
    first = learned.memories[0]
    new = any(change.what != "unchanged" for change in learned.changes)
    replaced = [change.label for change in learned.changes if change.what == "replaced"]
    embedded = all(memory.embedded_by for memory in learned.memories)
    notices = (
        f"It replaces what was known of {', '.join(replaced)}; `mindhold profile history` has that."
        if replaced
        else "",
        "" if embedded else context.engine.vector_source.reason,
    )
    return StoreResult(
        outcome="stored" if new else "duplicate",
        created=new,
        stored_as="profile",
        scope=first.scope,
        id=first.id,
        reason="the profile is everybody's" if request.scope is None else "",
        tags=list(first.tags),
        parts=[memory.id for memory in learned.memories] if len(learned.memories) > 1 else [],
        redacted=[finding.kind for finding in redact(request.content).findings]
        if context.engine.settings.intake.redact
        else [],
        embedded=embedded,
        notice=" ".join(filter(None, notices)),
    )
