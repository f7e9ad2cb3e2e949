"""From what a caller wants remembered to what the engine takes, and which conversations it was done in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mindhold.engine.checks import checked_scope_name
from mindhold.engine.conversations import ALONE, called, note_activity, outlive
from mindhold.engine.draft import Draft, Outcome, Remembered
from mindhold.engine.projects import open_project
from mindhold.model.errors import InvalidInput, ScopeNotFound
from mindhold.model.life import OURS, SESSION_ONLY, is_working
from mindhold.model.memory import Kind, Memory, Provenance, Tier
from mindhold.operations.catalogue import Call, full_ids

if TYPE_CHECKING:
    from mindhold.operations.writing import RememberInput

RECOMMENDED = 300  # characters of one atomic statement
ATOMIC = frozenset({Kind.FACT, Kind.DECISION, Kind.ERROR, Kind.PREFERENCE, Kind.PROCEDURE, Kind.RELATION})
SHORTER = "several short statements are found more easily."
LONG = f"It is kept whole, but it has over {RECOMMENDED} characters: {SHORTER}"
TALK = "It looks like small talk; nothing was stored."


class Drafting:
    """One call's drafts. A scope is opened once; in a dry run it is not made, but noted in `making`."""

    def __init__(self, call: Call, *, dry: bool = False) -> None:
        self.making: set[str] = set()
        self._call = call
        self._dry = dry
        self._scopes: dict[str, str] = {}

    async def draft(self, given: RememberInput) -> Draft:
        """Raises InvalidInput, ScopeNotFound, Refused, MemoryNotFound."""
        if given.session_only and (given.anchor or given.permanent):
            raise InvalidInput(
                "What ends with its conversation can't be kept for good.", advice="Choose one."
            )
        engine = self._call.engine
        metadata = callers(given.metadata)
        conversation = given.conversation or self._call.conversation
        if given.session_only and conversation is None:
            conversation = f"{ALONE}{engine.new_id()}"  # nobody will end it: a day does
        if given.session_only:
            metadata = {**metadata, SESSION_ONLY: called(engine, conversation or "")}
        return Draft(
            content=given.content,
            kind=given.kind,
            scope=await self._scope(given),
            agent=self._call.agent,
            topic=given.topic,
            tags=tuple(given.tags),
            keywords=tuple(given.keywords),
            importance=given.importance,
            confidence=given.confidence,
            occurred=given.occurred,
            anchor=given.anchor,
            tier=_tier(given),
            provenance=Provenance(
                dialect=given.dialect,
                source=given.source,
                conversation=conversation,
                position=given.position,
                file=given.file,
                line=given.line,
            ),
            metadata=metadata,
            linked_to=tuple(await full_ids(self._call, given.linked_to)) if given.linked_to else (),
            keep_noise=given.keep_noise,
        )

    async def _scope(self, given: RememberInput) -> str | None:
        if given.scope is None or not given.create_scope:
            return given.scope
        if given.scope not in self._scopes:
            self._scopes[given.scope] = await self._opened(given.scope)
        return self._scopes[given.scope]

    async def _opened(self, name: str) -> str:
        engine = self._call.engine
        try:
            return (await open_project(engine, name, create=not self._dry)).name
        except ScopeNotFound:
            if not self._dry:
                raise
        fresh = checked_scope_name(engine, name)
        self.making.add(fresh)
        return fresh


def callers(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the caller gave along. Raises InvalidInput for a name that would be taken for one of ours."""
    for name in metadata:
        if name.startswith(OURS):
            raise InvalidInput(
                f"The metadata has {name[:100]!r}: names that begin with {OURS!r} are Mindhold's own.",
                advice="Choose another name.",
            )
    return metadata


async def note_stored(call: Call, done: Iterable[tuple[Draft, Remembered]]) -> None:
    """Which conversations stored something. The turns of a log are none of it: they are the conversation."""
    stored: dict[tuple[str, bool], list[str]] = {}
    for draft, answer in done:
        told, memory = draft.provenance, answer.memory
        ends = SESSION_ONLY in draft.metadata  # whatever it is, somebody must see to its end
        if answer.outcome is Outcome.DUPLICATE and memory and is_working(memory) and not ends:
            await outlive(call.engine, memory)
        if (
            answer.outcome is Outcome.STORED
            and memory
            and told.conversation
            and (ends or told.position is None)
        ):
            ids = stored.setdefault((told.conversation, bool(answer.parts)), [])
            ids.extend(answer.parts or (memory.id,))
    for (conversation, document), ids in stored.items():
        # The parts of a long text don't bear the conversation's name.
        await note_activity(call.engine, conversation, ids, agent=call.agent, exactly=document)


def notice_of(answer: Remembered, *, unembedded: str) -> str:
    """What the caller should know of it; `unembedded` is why it has no meaning, if it has none."""
    if answer.outcome is Outcome.NOISE:
        return TALK
    if answer.outcome is not Outcome.STORED:
        changes = ", ".join(answer.unapplied)
        return f"It was there already; amend changes its {changes}." if changes else ""
    told = [unembedded if not answer.embedded else ""]
    if answer.memory and answer.memory.kind in ATOMIC and answer.parts:
        told.append(f"It is kept whole, in {len(answer.parts)} linked parts: {SHORTER}")
    elif answer.memory and is_long(answer.memory):
        told.append(LONG)
    return " ".join(filter(None, told))


def is_long(memory: Memory) -> bool:
    """Longer than one statement should be."""
    return memory.kind in ATOMIC and len(memory.content) > RECOMMENDED


def _tier(given: RememberInput) -> Tier:
    if given.session_only:
        return Tier.HOT
    return Tier.PERMANENT if given.permanent else Tier.WARM
