"""Sets, replaces and removes profile entries, all or nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal

from mindhold.aio import run_uncancelled
from mindhold.capture.hook_cache_removal import blank_hook_caches
from mindhold.engine import Engine
from mindhold.memories.amend import AmendInput, amending
from mindhold.memories.duplicates import superseding
from mindhold.memories.prepare import QUARANTINE_FROM, content_hash, name_hash, own_keywords, prepare
from mindhold.memories.validation import safe_text
from mindhold.memories.write import RememberInput
from mindhold.model.errors import Conflict, ContentTooLarge, InvalidInput, MemoryNotFound, Refused
from mindhold.model.lifecycle import PROFILE_SECTION_KEY
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.scope import GLOBAL
from mindhold.ports.store import Change, Mark, Put
from mindhold.profile.entries import (
    KEY,
    LABEL,
    MOST_ENTRIES,
    SOURCE,
    TAG,
    VALUE,
    WRITTEN,
    Slot,
    by_slot,
    entry_of,
    no_entry,
    records,
)
from mindhold.text.injection import suspicion
from mindhold.text.profile_values import Section, other_spellings, profile_sentence
from mindhold.text.redaction import redact_metadata

LONGEST_VALUE, LONGEST_NOTE = 500, 2_000
IMPORTANCE = 0.9
PATIENCE = 15.0  # seconds for which others may be faster, again and again
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds
What = Literal["set", "replaced", "removed", "unchanged"]
_KINDS = {
    Section.NAME: Kind.FACT,
    Section.PREFERENCES: Kind.PREFERENCE,
    Section.FACTS: Kind.FACT,
    Section.CONTACTS: Kind.RELATION,
    Section.NOTES: Kind.NOTE,
}


@dataclass(frozen=True, slots=True)
class WantedEntry:
    """What an entry is to say from now on; None: it is to go. `sentence` says it where no pattern would."""

    section: Section
    key: str
    label: str
    value: str | None
    sentence: str = ""

    @property
    def slot(self) -> Slot:
        return self.section.value, self.key


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What became of a wish; `memory` is the one that holds the entry, or held it."""

    section: Section
    key: str
    label: str
    value: str | None
    previous: str | None
    what: What
    memory: Memory

    @property
    def slot(self) -> Slot:
        return self.section.value, self.key


def note(text: str) -> WantedEntry:
    """A note is known by its words: the same one again is the same entry."""
    said = " ".join(text.split())
    return WantedEntry(Section.NOTES, content_hash(said)[:12], "note", said)


async def change_entries(
    engine: Engine, wishes: Sequence[WantedEntry], *, agent: str, conversation: str | None = None
) -> list[EntryChange]:
    """All of them or none; where somebody else was faster, it is looked at anew.

    Raises InvalidInput, ContentTooLarge, Refused and the store's errors.
    """
    checked = [_checked(engine, wish) for wish in wishes]
    if len({wish.slot for wish in checked}) < len(checked):
        raise InvalidInput("An entry is named twice.", advice="Say once what becomes of it.")
    done = await run_uncancelled(_changed(_roomy(engine), checked, agent=agent, conversation=conversation))
    if any(one.what == "removed" or one.what == "replaced" for one in done):
        await blank_hook_caches(engine)
    return done


async def _changed(
    engine: Engine, wishes: Sequence[WantedEntry], *, agent: str, conversation: str | None
) -> list[EntryChange]:
    clock = asyncio.get_running_loop().time
    until, pause = clock() + PATIENCE, SHORTEST_PAUSE
    settled: dict[Slot, EntryChange] = {}
    left = list(wishes)
    while left:
        known = by_slot(await records(engine, agent, own=True))
        _check_room(known.keys() | {wish.slot for wish in left if wish.value is not None})
        try:
            changes, done = await _planned(engine, left, known, agent=agent, conversation=conversation)
            if changes:
                await engine.store.apply(changes)
        except (Conflict, MemoryNotFound):
            if clock() > until:
                raise
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        settled |= {one.slot: one for one in done}
        doubled = await _doubled(engine, done, agent=agent)
        left = [wish for wish in left if wish.slot in doubled]
    return [settled[wish.slot] for wish in wishes]


async def _planned(
    engine: Engine,
    wishes: Sequence[WantedEntry],
    known: Mapping[Slot, list[Memory]],
    *,
    agent: str,
    conversation: str | None,
) -> tuple[list[Change], list[EntryChange]]:
    changes: list[Change] = []
    done: list[EntryChange] = []
    for wish in wishes:
        active = known.get(wish.slot, [])
        held, others = (active[0], active[1:]) if active else (None, [])
        previous = entry_of(held, agent=agent).value if held is not None else None
        what: What = "set"
        memory = held
        if wish.value is None:
            if held is None:
                raise no_entry(f"{wish.section}.{wish.key}")
            what = "removed"
            changes += [_forgetting(engine, one) for one in active]
        elif held is None:
            put = await _begun(engine, wish, agent=agent, conversation=conversation)
            memory = put.memory
            changes.append(put)
        else:
            what = "unchanged" if previous == wish.value else "replaced"
            if what == "replaced":
                put, amended = await _amended(engine, held, wish, agent=agent)
                memory = put.memory
                changes += amended
            changes += superseding(held, others, now=engine.clock())
        assert memory is not None
        done.append(EntryChange(wish.section, wish.key, wish.label, wish.value, previous, what, memory))
    return changes, done


async def _doubled(engine: Engine, done: Sequence[EntryChange], *, agent: str) -> set[Slot]:
    """The places that another one has taken at the same moment: one that was amended since has another hash.

    What was begun there goes again, and the other one is to be amended.
    """
    begun = {one.slot: one.memory.id for one in done if one.what == "set"}
    if not begun:
        return set()
    known = by_slot(await records(engine, agent, own=True))
    twice = {slot: own for slot, own in begun.items() if any(one.id != own for one in known.get(slot, ()))}
    if twice:
        await engine.store.erase(list(twice.values()))
    return set(twice)


async def _begun(engine: Engine, wish: WantedEntry, *, agent: str, conversation: str | None) -> Put:
    content = _content(engine, wish)
    request = RememberInput(
        content=content,
        kind=_KINDS[wish.section],
        scope=GLOBAL,
        tags=[TAG],
        keywords=list(_keywords(wish, content)),
        importance=IMPORTANCE,
        permanent=True,
        dialect=TAG,
        source=SOURCE,
        conversation=conversation,
        metadata=_metadata(wish, content),
        keep_noise=True,
    )
    [prepared] = prepare(engine, request, agent=agent)
    return _settled(engine, await prepared.embedded_put(engine), _place(wish))


async def _amended(
    engine: Engine, held: Memory, wish: WantedEntry, *, agent: str
) -> tuple[Put, list[Change]]:
    content = _content(engine, wish)
    request = AmendInput(
        id=held.id,
        content=content,
        keywords=list(_keywords(wish, content)) or None,
        permanent=True,
        occurred=engine.clock(),
        metadata=_metadata(wish, content),
    )
    put, changes = await amending(engine, held, request, agent=agent)
    put = _settled(engine, put, _place(wish, content))
    return put, [put, changes[1]]


def _settled(engine: Engine, put: Put, digest: str) -> Put:
    """It waits for nobody's judgement: the person said so. Under its own hash it is no repetition of another memory."""
    now = engine.clock()
    return replace(put, memory=replace(put.memory, content_hash=digest, verified=now, examined=now))


def _place(wish: WantedEntry, *said: str) -> str:
    return name_hash(" ".join((TAG, *wish.slot, *said)))


def _forgetting(engine: Engine, memory: Memory) -> Mark:
    return Mark(
        memory.id,
        Status.FORGOTTEN,
        previous=memory.status,
        updated=engine.clock(),
        only_from=memory.status,
    )


def _content(engine: Engine, wish: WantedEntry) -> str:
    said = wish.sentence or profile_sentence(wish.section, wish.label, wish.value or "")
    return safe_text(engine, said)


def _keywords(wish: WantedEntry, content: str) -> tuple[str, ...]:
    """None but those that it has by itself, unless a word of its name is written in two ways."""
    others = other_spellings(wish.label)
    return (*own_keywords(content, {}), *others) if others else ()


def _metadata(wish: WantedEntry, content: str) -> dict[str, Any]:
    return {
        PROFILE_SECTION_KEY: wish.section.value,
        KEY: wish.key,
        LABEL: wish.label,
        VALUE: wish.value,
        WRITTEN: content_hash(content),
    }


def _checked(engine: Engine, wish: WantedEntry) -> WantedEntry:
    """Safe, on one line, bounded, and nothing that instructs its reader: a profile is given to every conversation."""
    if wish.value is None:
        return wish
    value, label = " ".join(wish.value.split()), " ".join(wish.label.split())
    longest = LONGEST_NOTE if wish.section is Section.NOTES else LONGEST_VALUE
    if not value:
        raise InvalidInput(
            f"{wish.key} has no value.", advice=f"`mindhold profile unset {wish.key}` removes one."
        )
    if len(value) > longest or len(label) > LONGEST_VALUE:
        raise ContentTooLarge(
            f"{wish.key} has {max(len(value), len(label)):,} characters; an entry takes {longest:,}.",
            advice="Shorten it, or remember it as a memory.",
        )
    doubt = suspicion(f"{label}: {wish.sentence or value}")
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is so of the person, not what a reader is to do.",
        )
    if safe_text(engine, wish.key) != wish.key:
        raise InvalidInput("The name of an entry can't hold a secret.", advice="Choose another name.")
    return _redacted(engine, replace(wish, value=value, label=label))


def _redacted(engine: Engine, wish: WantedEntry) -> WantedEntry:
    """Without secrets: some are known only by what they are called, "password is ..."."""
    value, label = safe_text(engine, wish.value or ""), safe_text(engine, wish.label)
    if wish.section is Section.NOTES:
        return note(value)
    if engine.settings.intake.redact:
        told = redact_metadata({wish.label: value}).value
        value = next(iter(told.values()), value)
        said = safe_text(engine, f"{wish.label}: {value}")
        if value not in said:
            value = said.partition(": ")[2] or said
    same = value == wish.value and label == wish.label
    return replace(wish, value=value, label=label, sentence=wish.sentence if same else "")


def _check_room(slots: AbstractSet[Slot]) -> None:
    if len(slots) > MOST_ENTRIES:
        raise InvalidInput(
            f"A profile holds {MOST_ENTRIES} entries.", advice="Remove some, or remember it as a memory."
        )


def _roomy(engine: Engine) -> Engine:
    """An entry is one memory, however short other texts are before they are split."""
    length = max(engine.settings.intake.part_length, LONGEST_NOTE + LONGEST_VALUE + 200)
    return engine.with_settings(intake=replace(engine.settings.intake, part_length=length))
