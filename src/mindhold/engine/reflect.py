"""What a conversation came to, as somebody says it: each point a memory of its own, part of the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mindhold.engine.conversations import called, happened
from mindhold.engine.core import Engine, unbroken
from mindhold.engine.draft import Draft, Outcome, Remembered, prepare
from mindhold.engine.events import Event
from mindhold.engine.intake import BATCH, remember_many
from mindhold.engine.recount import SUMMARY
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Provenance, Status
from mindhold.ports.store import Change, Connect, Mark

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
REFLECTION_OF = "mindhold.reflection_of"  # in the metadata of what is written at the end of a conversation


@dataclass(frozen=True, slots=True)
class Reflection:
    """What it became: ids with the summary's first, and how many of each sort are new."""

    ids: tuple[str, ...]
    stored: Mapping[str, int]
    duplicates: int
    quarantined: int = 0  # kept, but never given to anybody: they read like instructions to their reader


async def reflect(
    engine: Engine,
    points: Mapping[str, Sequence[str]],
    *,
    agent: str,
    conversation: str | None = None,
    scope: str | None = None,
    held_in: str | None = None,
) -> Reflection:
    """Each point its own memory, part of the summary. `points` are by the names in KINDS; blank ones are passed over.

    `held_in` is the conversation that it was said in, where that is another: of that, too, somebody has spoken now.
    Raises InvalidInput, ContentTooLarge, ScopeNotFound, Refused; then nothing is stored.
    """
    conversation = called(engine, conversation) if conversation else None
    drafts = [
        (name, _draft(name, text, agent=agent, conversation=conversation, scope=scope))
        for name in KINDS
        for text in points.get(name, ())
        if text.strip() or name == SUMMARY
    ]
    for _, draft in drafts:
        prepare(engine, draft)  # one that can't be stored is found before any is
    about = [called(engine, name) for name in (conversation, held_in) if name]
    answers = await unbroken(_kept(engine, [draft for _, draft in drafts], agent=agent, about=about))
    new = [name for (name, _), one in zip(drafts, answers, strict=True) if one.outcome is Outcome.STORED]
    return Reflection(
        ids=ids_of(answers),
        stored=dict(Counter(new)),
        duplicates=sum(one.outcome is Outcome.DUPLICATE for one in answers),
        quarantined=sum(
            one.memory is not None and one.memory.status is Status.QUARANTINED for one in answers
        ),
    )


async def stored_together(
    engine: Engine, drafts: Sequence[Draft], *, to: str | None = None
) -> list[Remembered]:
    """All of them, tied to that memory or else to the first of them, or none."""
    answers: list[Remembered] = []
    try:
        for start in range(0, len(drafts), BATCH):  # what one step stores is stored whole or not at all
            answers += await remember_many(engine, drafts[start : start + BATCH])
            for answer in answers:
                if answer.error is not None:
                    raise answer.error
        ids = ids_of(answers)
        if ids:
            await attach(engine, ids, to=to or ids[0])
    except MindholdError:
        await take_back(engine, answers)
        raise
    return answers


async def attach(engine: Engine, parts: Sequence[str], *, to: str) -> None:
    """Make them part of one."""
    now = engine.clock()
    links: list[Change] = [Connect(Link(part, to, Relation.PART_OF, now)) for part in parts if part != to]
    if links:
        await engine.store.apply(links)


def ids_of(answers: Sequence[Remembered]) -> tuple[str, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(answer.memory.id for answer in answers if answer.memory))


async def _kept(
    engine: Engine, drafts: Sequence[Draft], *, agent: str, about: Sequence[str]
) -> list[Remembered]:
    answers = await stored_together(engine, drafts)
    # What somebody says of it stands; what was written by itself before stays as it is.
    for conversation in dict.fromkeys(about):
        event = Event(ids_of(answers), reflected=True)
        await happened(engine, conversation, event, agent=agent)
    return answers


async def take_back(engine: Engine, answers: Sequence[Remembered]) -> None:
    """Erase what is new of them, as far as the store lets us."""
    now = engine.clock()
    new = [one for one in answers if one.outcome is Outcome.STORED and one.memory]
    retired = [old for one in new for old in one.superseded]
    with suppress(StoreError):
        await engine.store.erase([each for one in new for each in (one.parts or ids_of([one]))])
        changes: list[Change] = [
            Mark(old, Status.ACTIVE, previous=None, updated=now, only_from=Status.SUPERSEDED)
            for old in retired
        ]
        if changes:
            await engine.store.apply(changes)


def _draft(name: str, text: str, *, agent: str, conversation: str | None, scope: str | None) -> Draft:
    return Draft(
        content=text,
        kind=KINDS[name],
        scope=scope,
        agent=agent,
        tags=TAGS.get(name, ()),
        provenance=Provenance(source="reflect", conversation=conversation),
        keep_noise=True,
    )
