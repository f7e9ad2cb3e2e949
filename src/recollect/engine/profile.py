"""The profile: what is known of the person themselves. Name, preferences, facts, contacts, notes.

Each entry is a memory like any other, in Global, so that every dialect finds it; what makes it one is in its metadata. An
agent has its own profile and sees the one of `default`: where both say something, its own counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from recollect.engine.core import Engine
from recollect.engine.profile_entries import Entry, Slot, entry_of, named, no_entry, records, value_of
from recollect.engine.profile_writing import EntryChange, Wish, change_entries, note
from recollect.engine.text.noise import is_noise
from recollect.engine.text.profile import profile_fact, sentences
from recollect.engine.text.profile_values import Section, key_of
from recollect.engine.versions import WITHHELD, editions_of
from recollect.model.errors import InvalidInput, Refused
from recollect.model.memory import Memory
from recollect.model.tokens import count_tokens, truncate_to_tokens

SHORTEST_TOLD = 3  # tokens: what is left below that is room for nothing
LONGEST_TOLD = 40  # tokens of one value in a context
HEADING = "Profile of the user:"


@dataclass(frozen=True, slots=True)
class Profile:
    """Section by section; within one, in the order of their keys, and notes in that of their writing."""

    agent: str
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str | None:
        return next((one.value for one in self.of(Section.NAME)), None)

    @property
    def preferences(self) -> dict[str, str]:
        return {one.key: one.value for one in self.of(Section.PREFERENCES)}

    @property
    def facts(self) -> dict[str, str]:
        return {one.key: one.value for one in self.of(Section.FACTS)}

    @property
    def contacts(self) -> list[tuple[str, str]]:
        return [(one.label, one.value) for one in self.of(Section.CONTACTS)]

    @property
    def notes(self) -> list[str]:
        return [one.value for one in self.of(Section.NOTES)]

    def of(self, section: Section) -> list[Entry]:
        return [one for one in self.entries if one.section is section]


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


async def profile(engine: Engine, agent: str) -> Profile:
    """All that the agent is to know of the person."""
    found: dict[tuple[Section, str], Entry] = {}
    # The agent's own come last, and of two for one place the one that was written last.
    for memory in sorted(
        await records(engine, agent), key=lambda one: (one.agent == agent, one.updated, one.id)
    ):
        entry = entry_of(memory, agent=agent)
        found[entry.section, entry.key] = entry
    order = list(Section)
    return Profile(
        agent, tuple(sorted(found.values(), key=lambda one: (order.index(one.section), *_place(one))))
    )


async def count_profile(engine: Engine, agent: str) -> dict[str, int]:
    """How many entries each section has."""
    known = await profile(engine, agent)
    return {section.value: len(known.of(section)) for section in Section}


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


def outlined(known: Profile, room: int) -> tuple[str, frozenset[str]]:
    """The profile in a few lines within so many tokens, and the memories that are told by them: what comes first fits first."""
    told: list[Entry] = []
    text = ""
    for entry in known.entries:
        longer = _outline([*told, entry])
        if count_tokens(longer) > room:
            continue
        told.append(entry)
        text = longer
        if count_tokens(text) > room - SHORTEST_TOLD:
            break
    return text, frozenset(entry.memory.id for entry in told)


def _outline(entries: Sequence[Entry]) -> str:
    sections: dict[Section, list[str]] = {}
    for entry in entries:
        sections.setdefault(entry.section, []).append(_told(entry))
    return "\n".join([HEADING, *(f"- {section}: {'; '.join(told)}" for section, told in sections.items())])


def _told(entry: Entry) -> str:
    value = truncate_to_tokens(" ".join(entry.value.split()), LONGEST_TOLD)
    match entry.section:
        case Section.NAME | Section.NOTES:
            return value
        case Section.CONTACTS:
            return f"{entry.label} ({value})"
        case _:
            return value if value == entry.label else f"{entry.label} = {value}"


def _place(entry: Entry) -> tuple[str, str]:
    return (
        (entry.memory.created.isoformat(), entry.key) if entry.section is Section.NOTES else (entry.key, "")
    )
