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
    entry_not_found,
    entry_of,
    profile_memories,
)
from mindhold.text.injection import suspicion
from mindhold.text.profile_values import Section, other_spellings, profile_sentence
from mindhold.text.redaction import redact_metadata

LONGEST_VALUE, LONGEST_NOTE = 500, 2_000
IMPORTANCE = 0.9
PATIENCE = 15.0  # seconds to retry while other writers are faster
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
    """The wanted value of an entry; None removes it. `sentence` is its text if no pattern fits."""

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
    """What happened to a wanted entry; `memory` is the one that has or had it."""

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
    """A wanted note. Its key is a hash of its words, so that the same note is the same entry."""
    words = " ".join(text.split())
    return WantedEntry(Section.NOTES, content_hash(words)[:12], "note", words)


async def change_entries(
    engine: Engine, entries: Sequence[WantedEntry], *, agent: str, conversation: str | None = None
) -> list[EntryChange]:
    """Apply all changes or none; retries if another writer was faster.

    Raises InvalidInput, ContentTooLarge, Refused and the store's errors.
    """
    checked = [_check(engine, entry) for entry in entries]
    if len({entry.slot for entry in checked}) < len(checked):
        raise InvalidInput("An entry is named twice.", advice="Say once what becomes of it.")
    changes = await run_uncancelled(
        _apply(_without_split(engine), checked, agent=agent, conversation=conversation)
    )
    if any(change.what == "removed" or change.what == "replaced" for change in changes):
        await blank_hook_caches(engine)
    return changes


async def _apply(
    engine: Engine, entries: Sequence[WantedEntry], *, agent: str, conversation: str | None
) -> list[EntryChange]:
    clock = asyncio.get_running_loop().time
    until, pause = clock() + PATIENCE, SHORTEST_PAUSE
    results: dict[Slot, EntryChange] = {}
    remaining = list(entries)
    while remaining:
        memories = by_slot(await profile_memories(engine, agent, own=True))
        _check_room(memories.keys() | {entry.slot for entry in remaining if entry.value is not None})
        try:
            changes, applied = await _plan(
                engine, remaining, memories, agent=agent, conversation=conversation
            )
            if changes:
                await engine.store.apply(changes)
        except (Conflict, MemoryNotFound):
            if clock() > until:
                raise
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        results |= {change.slot: change for change in applied}
        collisions = await _undo_collisions(engine, applied, agent=agent)
        remaining = [entry for entry in remaining if entry.slot in collisions]
    return [results[entry.slot] for entry in entries]


async def _plan(
    engine: Engine,
    entries: Sequence[WantedEntry],
    memories: Mapping[Slot, list[Memory]],
    *,
    agent: str,
    conversation: str | None,
) -> tuple[list[Change], list[EntryChange]]:
    changes: list[Change] = []
    results: list[EntryChange] = []
    for entry in entries:
        active = memories.get(entry.slot, [])
        current, others = (active[0], active[1:]) if active else (None, [])
        previous = entry_of(current, agent=agent).value if current is not None else None
        what: What = "set"
        memory = current
        if entry.value is None:
            if current is None:
                raise entry_not_found(f"{entry.section}.{entry.key}")
            what = "removed"
            changes += [_forget_mark(engine, old) for old in active]
        elif current is None:
            put = await _new_entry(engine, entry, agent=agent, conversation=conversation)
            memory = put.memory
            changes.append(put)
        else:
            what = "unchanged" if previous == entry.value else "replaced"
            if what == "replaced":
                put, amended = await _amend_entry(engine, current, entry, agent=agent)
                memory = put.memory
                changes += amended
            changes += superseding(current, others, now=engine.clock())
        assert memory is not None
        results.append(
            EntryChange(entry.section, entry.key, entry.label, entry.value, previous, what, memory)
        )
    return changes, results


async def _undo_collisions(engine: Engine, changes: Sequence[EntryChange], *, agent: str) -> set[Slot]:
    """The slots that another writer filled at the same moment; the memories created here are erased again."""
    created = {item.slot: item.memory.id for item in changes if item.what == "set"}
    if not created:
        return set()
    memories = by_slot(await profile_memories(engine, agent, own=True))
    collisions = {
        slot: memory_id
        for slot, memory_id in created.items()
        if any(item.id != memory_id for item in memories.get(slot, ()))
    }
    if collisions:
        await engine.store.erase(list(collisions.values()))
    return set(collisions)


async def _new_entry(engine: Engine, entry: WantedEntry, *, agent: str, conversation: str | None) -> Put:
    content = _content(engine, entry)
    request = RememberInput(
        content=content,
        kind=_KINDS[entry.section],
        scope=GLOBAL,
        tags=[TAG],
        keywords=list(_keywords(entry, content)),
        importance=IMPORTANCE,
        permanent=True,
        dialect=TAG,
        source=SOURCE,
        conversation=conversation,
        metadata=_metadata(entry, content),
        keep_noise=True,
    )
    [prepared] = prepare(engine, request, agent=agent)
    return _finalize(engine, await prepared.embedded_put(engine), _slot_hash(entry))


async def _amend_entry(
    engine: Engine, current: Memory, entry: WantedEntry, *, agent: str
) -> tuple[Put, list[Change]]:
    content = _content(engine, entry)
    request = AmendInput(
        id=current.id,
        content=content,
        keywords=list(_keywords(entry, content)) or None,
        permanent=True,
        occurred=engine.clock(),
        metadata=_metadata(entry, content),
    )
    put, changes = await amending(engine, current, request, agent=agent)
    put = _finalize(engine, put, _slot_hash(entry, content))
    return put, [put, changes[1]]


def _finalize(engine: Engine, put: Put, digest: str) -> Put:
    """Set the slot's hash, so that it repeats no other memory, and mark it as judged: the user said so."""
    now = engine.clock()
    return replace(put, memory=replace(put.memory, content_hash=digest, verified=now, examined=now))


def _slot_hash(entry: WantedEntry, *texts: str) -> str:
    return name_hash(" ".join((TAG, *entry.slot, *texts)))


def _forget_mark(engine: Engine, memory: Memory) -> Mark:
    return Mark(
        memory.id, Status.FORGOTTEN, previous=memory.status, updated=engine.clock(), only_from=memory.status
    )


def _content(engine: Engine, entry: WantedEntry) -> str:
    sentence = entry.sentence or profile_sentence(entry.section, entry.label, entry.value or "")
    return safe_text(engine, sentence)


def _keywords(entry: WantedEntry, content: str) -> tuple[str, ...]:
    """Additional keywords if a word of the label has other spellings; else none."""
    others = other_spellings(entry.label)
    return (*own_keywords(content, {}), *others) if others else ()


def _metadata(entry: WantedEntry, content: str) -> dict[str, Any]:
    return {
        PROFILE_SECTION_KEY: entry.section.value,
        KEY: entry.key,
        LABEL: entry.label,
        VALUE: entry.value,
        WRITTEN: content_hash(content),
    }


def _check(engine: Engine, entry: WantedEntry) -> WantedEntry:
    """The entry on one line, or an error if it is too long or reads like an instruction."""
    if entry.value is None:
        return entry
    value, label = " ".join(entry.value.split()), " ".join(entry.label.split())
    longest = LONGEST_NOTE if entry.section is Section.NOTES else LONGEST_VALUE
    if not value:
        raise InvalidInput(
            f"{entry.key} has no value.", advice=f"`mindhold profile unset {entry.key}` removes one."
        )
    if len(value) > longest or len(label) > LONGEST_VALUE:
        raise ContentTooLarge(
            f"{entry.key} has {max(len(value), len(label)):,} characters; an entry takes {longest:,}.",
            advice="Shorten it, or remember it as a memory.",
        )
    doubt = suspicion(f"{label}: {entry.sentence or value}")
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is so of the person, not what a reader is to do.",
        )
    if safe_text(engine, entry.key) != entry.key:
        raise InvalidInput("The name of an entry can't hold a secret.", advice="Choose another name.")
    return _redact(engine, replace(entry, value=value, label=label))


def _redact(engine: Engine, entry: WantedEntry) -> WantedEntry:
    """Remove secrets. Some are recognized only by their label, such as "password is ..."."""
    value, label = safe_text(engine, entry.value or ""), safe_text(engine, entry.label)
    if entry.section is Section.NOTES:
        return note(value)
    if engine.settings.intake.redact:
        redacted = redact_metadata({entry.label: value}).value
        value = next(iter(redacted.values()), value)
        line = safe_text(engine, f"{entry.label}: {value}")
        if value not in line:
            value = line.partition(": ")[2] or line
    unchanged = value == entry.value and label == entry.label
    return replace(entry, value=value, label=label, sentence=entry.sentence if unchanged else "")


def _check_room(slots: AbstractSet[Slot]) -> None:
    if len(slots) > MOST_ENTRIES:
        raise InvalidInput(
            f"A profile holds {MOST_ENTRIES} entries.", advice="Remove some, or remember it as a memory."
        )


def _without_split(engine: Engine) -> Engine:
    """An engine that stores an entry as one memory, whatever the length at which other texts are split."""
    length = max(engine.settings.intake.part_length, LONGEST_NOTE + LONGEST_VALUE + 200)
    return engine.with_settings(intake=replace(engine.settings.intake, part_length=length))
