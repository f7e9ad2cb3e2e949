"""The profile: what is known of the person themselves. Name, preferences, facts, contacts, notes.

Each entry is a memory like any other, in Global, so that every dialect finds it; what makes it one is in its metadata. An
agent has its own profile and sees the one of `default`: where both say something, its own counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mindhold.engine.core import Engine
from mindhold.engine.profile_entries import (
    Entry,
    Profile,
    Slot,
    count_profile,
    entry_of,
    named,
    no_entry,
    profile,
    records,
    value_of,
)
from mindhold.engine.profile_writing import EntryChange, Wish, change_entries, note
from mindhold.engine.text.noise import is_noise
from mindhold.engine.text.profile import profile_fact, sentences
from mindhold.engine.text.profile_values import Section, key_of
from mindhold.engine.versions import WITHHELD, editions_of
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.memory import Memory

__all__ = [
    "EntryChange",
    "EntryEdition",
    "Learned",
    "Profile",
    "Section",
    "count_profile",
    "drop_entry",
    "dropping",
    "entry_history",
    "find_entry",
    "learn",
    "profile",
    "set_entry",
    "setting",
    "wished",
]


@dataclass(frozen=True, slots=True)
class EntryEdition:
    """What an entry said, from when to when (None: now), and who said so."""

    value: str
    content: str
    since: datetime
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True)
class Learned:
    """What was read out of a text: entries, or a note where nothing could be."""

    changes: tuple[EntryChange, ...]

    @property
    def memories(self) -> tuple[Memory, ...]:
        return tuple(one.memory for one in self.changes)


async def find_entry(engine: Engine, name: str, *, agent: str) -> Entry:
    """The one of that name: `favorite_color`, `facts.favorite_color`, `contacts.Alice`. Raises NotFound, InvalidInput."""
    section, key = named(name)
    known = await profile(engine, agent)
    found = [one for one in known.entries if one.key == key and section in (None, one.section)]
    if len(found) > 1:
        told = ", ".join(f"{one.section}.{one.key}" for one in found)
        raise InvalidInput(f"{name!r} is several entries: {told}.", advice="Give the section too.")
    if not found:
        raise no_entry(name)
    return found[0]


async def entry_history(engine: Engine, name: str, *, agent: str) -> tuple[Entry, list[EntryEdition]]:
    """The entry and all that it has said, oldest first. Raises NotFound, InvalidInput."""
    entry = await find_entry(engine, name, agent=agent)
    kept = await engine.store.versions_of(entry.memory.id)
    told = []
    said = [*(value_of(version) for version in kept), entry.value]
    for value, edition in zip(said, editions_of(entry.memory, kept), strict=True):
        content = edition.said.content
        shown = WITHHELD if content == WITHHELD else value
        told.append(EntryEdition(shown, content, edition.since, edition.until, edition.by))
    return entry, told


async def learn(engine: Engine, text: str, *, agent: str, conversation: str | None = None) -> Learned:
    """Keep what somebody said of themselves: as facts where these can be read, the rest as a note.

    Raises InvalidInput, ContentTooLarge, Refused and the store's errors.
    """
    wishes = wished(text)
    if not wishes:
        raise InvalidInput("There is nothing to learn in an empty text.", advice="Give it some words.")
    return Learned(tuple(await change_entries(engine, wishes, agent=agent, conversation=conversation)))


def wished(text: str) -> list[Wish]:
    """What a text comes to."""
    wishes: dict[Slot, Wish] = {}
    rest: list[str] = []
    for said in sentences(text):
        if fact := profile_fact(said):
            one = Wish(fact.section, fact.key, fact.label, fact.value, fact.sentence)
            wishes[one.slot] = one
        elif not is_noise(said):
            rest.append(said)
    left = " ".join(rest) if wishes else text
    if left.strip():
        one = note(left)
        wishes[one.slot] = one
    return list(wishes.values())


async def set_entry(
    engine: Engine, section: Section, label: str, value: str, *, agent: str, conversation: str | None = None
) -> EntryChange:
    """Raises InvalidInput, ContentTooLarge, Refused and the store's errors."""
    wish = setting(section, label, value)
    [done] = await change_entries(engine, [wish], agent=agent, conversation=conversation)
    return done


async def drop_entry(engine: Engine, name: str, *, agent: str) -> EntryChange:
    """Forget an entry, softly. Raises NotFound, InvalidInput, Refused for one that is everybody's."""
    [done] = await change_entries(engine, await dropping(engine, [name], agent=agent), agent=agent)
    return done


def setting(section: Section, label: str, value: str) -> Wish:
    """For what somebody says directly. Raises InvalidInput."""
    if section is Section.NOTES:
        return note(value)
    if section is Section.NAME:
        return Wish(section, Section.NAME.value, Section.NAME.value, value)
    shown = label.strip() if section is Section.CONTACTS else " ".join(label.replace("_", " ").split())
    return Wish(section, key_of(label), shown, value)


async def dropping(engine: Engine, names: Sequence[str], *, agent: str) -> list[Wish]:
    """The wishes that these go. A note may be named by its text. Raises NotFound, InvalidInput, Refused."""
    everybody = [entry_of(memory, agent=agent) for memory in await records(engine, agent)]
    wishes: dict[Slot, Wish] = {}
    for name in names:
        found = [one for one in everybody if _is_meant(one, name)]
        own = {(one.section, one.key): one for one in found if not one.shared}
        if len(own) > 1:
            told = ", ".join(f"{one.section}.{one.key}" for one in own.values())
            raise InvalidInput(f"{name!r} is several entries: {told}.", advice="Give the section too.")
        if found and not own:
            raise Refused(
                f"{name!r} is in everybody's profile, not in {agent!r}'s own.",
                advice="Remove it as the agent `default`, or set another value for this agent.",
            )
        if not own:
            raise no_entry(name)
        for one in own.values():
            wishes[one.section.value, one.key] = Wish(one.section, one.key, one.label, None)
    return list(wishes.values())


def _is_meant(entry: Entry, name: str) -> bool:
    if entry.section is Section.NOTES and entry.key == note(name.strip().removeprefix("notes.")).key:
        return True
    try:
        section, key = named(name)
    except InvalidInput:  # the text of a note, then
        return False
    return entry.key == key and section in (None, entry.section)
