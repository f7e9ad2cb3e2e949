"""Stores the outcome of a conversation that a caller reports: a summary and one memory for each point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.conversations.events import ConversationEvent
from mindhold.conversations.sessions import clean_conversation_name, save_conversation_event
from mindhold.engine import Engine
from mindhold.memories.feedback import MOST_POINTS, Effectiveness, keep_effect
from mindhold.memories.prepare import prepare
from mindhold.memories.views import ScopeName
from mindhold.memories.write import BATCH, RememberInput, WriteOutcome, WriteResult, write_many
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.memory import Kind, Link, Relation, Status
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Change, Connect, Mark
from mindhold.projects.placement import open_project

SUMMARY = "summary"

KINDS: Mapping[str, Kind] = {
    SUMMARY: Kind.EPISODE,
    "decisions": Kind.DECISION,
    "errors_resolved": Kind.ERROR,
    "new_procedures": Kind.PROCEDURE,
    "open_questions": Kind.FACT,
}
REFLECTION = "reflection"
OPEN_QUESTION = "open question"
TAGS: Mapping[str, tuple[str, ...]] = {
    SUMMARY: (REFLECTION,),
    "errors_resolved": ("resolved",),
    "open_questions": (OPEN_QUESTION,),
}
REFLECTION_OF = (
    "mindhold.reflection_of"  # in the metadata of memories that are written at the end of a conversation
)


async def stored_together(
    engine: Engine, requests: Sequence[RememberInput], *, agent: str, to: str | None = None
) -> list[WriteResult]:
    """Store all of the requests or none, and link them to memory `to`, or else to the first of them."""
    results: list[WriteResult] = []
    try:
        for start in range(0, len(requests), BATCH):  # a batch is stored completely or not at all
            results += await write_many(engine, requests[start : start + BATCH], agent=agent)
            for result in results:
                if result.error is not None:
                    raise result.error
        ids = ids_of(results)
        if ids:
            await attach(engine, ids, to=to or ids[0])
    except MindholdError:
        await take_back(engine, results)
        raise
    return results


async def attach(engine: Engine, parts: Sequence[str], *, to: str) -> None:
    """Link memories as parts of another one."""
    now = engine.clock()
    links: list[Change] = [Connect(Link(part, to, Relation.PART_OF, now)) for part in parts if part != to]
    if links:
        await engine.store.apply(links)


def ids_of(results: Sequence[WriteResult]) -> tuple[str, ...]:
    """Return the ids of the stored memories, each once, in order."""
    return tuple(dict.fromkeys(result.memory.id for result in results if result.memory))


async def _store(
    engine: Engine, requests: Sequence[RememberInput], *, agent: str, about: Sequence[str]
) -> list[WriteResult]:
    results = await stored_together(engine, requests, agent=agent)
    # A reported reflection replaces the automatic one; what was written automatically before stays.
    for conversation in dict.fromkeys(about):
        event = ConversationEvent(ids_of(results), reflected=True)
        await save_conversation_event(engine, conversation, event, agent=agent)
    return results


async def take_back(engine: Engine, results: Sequence[WriteResult]) -> None:
    """Erase the new memories of these results, as far as the store allows."""
    now = engine.clock()
    new = [result for result in results if result.outcome is WriteOutcome.STORED and result.memory]
    retired = [old for result in new for old in result.superseded]
    with suppress(StoreError):
        await engine.store.erase([part for result in new for part in (result.parts or ids_of([result]))])
        changes: list[Change] = [
            Mark(old, Status.ACTIVE, previous=None, updated=now, only_from=Status.SUPERSEDED)
            for old in retired
        ]
        if changes:
            await engine.store.apply(changes)


class ReflectInput(Input):
    """What a conversation came to."""

    summary: str = Field(description="The summary.", examples=["Moved staging to another port."])
    conversation: str | None = Field(
        default=None, description="The conversation that it belongs to.", examples=["abc-123"]
    )
    decisions: list[str] = Field(
        default=[],
        max_length=MOST_POINTS,
        description="Decisions.",
        examples=[["Staging listens on port 5433."]],
    )
    errors_resolved: list[str] = Field(
        default=[], max_length=MOST_POINTS, description="Errors that were resolved, and how."
    )
    new_procedures: list[str] = Field(
        default=[], max_length=MOST_POINTS, description="Procedures that were learned."
    )
    open_questions: list[str] = Field(default=[], max_length=MOST_POINTS, description="Open questions.")
    scope: ScopeName = None
    create_scope: bool = Field(default=False, description="Create the scope if it does not exist.")
    effectiveness: Effectiveness | None = Field(
        default=None, description="How the work went, and which tools helped."
    )


class ReflectCounts(Output):
    """How many memories of each sort were stored now."""

    summary: int = Field(default=0, description="How many summaries were stored.", examples=[1])
    decisions: int = Field(default=0, description="How many decisions were stored.", examples=[1])
    errors_resolved: int = Field(default=0, description="How many resolved errors were stored.")
    new_procedures: int = Field(default=0, description="How many procedures were stored.")
    open_questions: int = Field(default=0, description="How many open questions were stored.")


class ReflectResult(Output):
    """What it became: the summary's id first. `ids` has those that were known already as well."""

    ids: list[str] = Field(description="Ids of memories.", examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])
    stored: int = Field(examples=[2])
    duplicates: int = Field(examples=[0])
    quarantined: int = Field(
        default=0, description="How many were quarantined because they read like instructions."
    )
    counts: ReflectCounts
    conversation: str | None = Field(
        default=None, description="The conversation that it belongs to.", examples=["abc-123"]
    )
    effectiveness_recorded: bool = False


async def _reflect(context: Context, request: ReflectInput) -> ReflectResult:
    """Keep what a conversation came to.

    Raises InvalidInput, ContentTooLarge, ScopeNotFound, Refused; then nothing is stored.
    """
    engine, conversation = context.engine, request.conversation or context.conversation
    if request.scope and request.create_scope:
        await open_project(engine, request.scope, create=True)
    name = clean_conversation_name(engine, conversation) if conversation else None
    points = [(SUMMARY, request.summary)]
    points += [
        (sort, text) for sort in KINDS if sort != SUMMARY for text in getattr(request, sort) if text.strip()
    ]
    requests = [
        RememberInput(
            content=text,
            kind=KINDS[sort],
            scope=request.scope,
            tags=list(TAGS.get(sort, ())),
            source="reflect",
            conversation=name,
            keep_noise=True,
        )
        for sort, text in points
    ]
    for each in requests:
        prepare(engine, each)  # so that an invalid one fails before anything is stored
    # The conversation of the call counts as reflected too.
    about = [clean_conversation_name(engine, other) for other in (name, context.conversation) if other]
    results = await run_uncancelled(_store(engine, requests, agent=context.agent, about=about))
    outcomes = [result.outcome for result in results]
    stored = Counter(
        sort for (sort, _), outcome in zip(points, outcomes, strict=True) if outcome is WriteOutcome.STORED
    )
    if request.effectiveness is not None:
        await keep_effect(engine, request.effectiveness, conversation=conversation, agent=context.agent)
    return ReflectResult(
        ids=list(ids_of(results)),
        stored=stored.total(),
        duplicates=outcomes.count(WriteOutcome.DUPLICATE),
        quarantined=sum(
            result.memory is not None and result.memory.status is Status.QUARANTINED for result in results
        ),
        counts=ReflectCounts(**stored),
        conversation=conversation,
        effectiveness_recorded=request.effectiveness is not None,
    )


REFLECT = operation(
    "reflect", _reflect, writes=True, default_scope=True, stored_ids=lambda result: result.ids
)
