"""Profile entries as they are read: memories marked by their metadata. Quick to import, because every session start reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.prepare import content_hash
from mindhold.model.errors import NotFound
from mindhold.model.lifecycle import PROFILE_SECTION_KEY
from mindhold.model.memory import Memory, Version
from mindhold.model.query import Filter, Order
from mindhold.model.scope import DEFAULT_AGENT, GLOBAL
from mindhold.model.tokens import count_tokens, truncate_to_tokens
from mindhold.text.profile_values import Section, profile_key, profile_sentence

TAG = "profile"
SOURCE = "user_profile"
# Not "key", which is what secrets are called.
KEY, LABEL, VALUE, WRITTEN = "profile_entry", "profile_label", "profile_value", "profile_written"
Slot = tuple[str, str]  # a section and a key
MOST_ENTRIES = 500  # of one agent
SHORTEST_TOLD = 3  # tokens: what is left below that is room for nothing
LONGEST_TOLD = 40  # tokens of one value in a context
HEADING = "Profile of the user:"


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One thing that is known; `shared` where it is everybody's and not the agent's own."""

    section: Section
    key: str
    label: str  # as it was called; of a contact, the name
    value: str  # of a contact, what they are to the person
    memory: Memory
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """Section by section; within one, in the order of their keys, and notes in that of their writing."""

    agent: str
    entries: tuple[ProfileEntry, ...]

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

    def of(self, section: Section) -> list[ProfileEntry]:
        return [one for one in self.entries if one.section is section]


async def profile(engine: Engine, agent: str) -> Profile:
    """All that the agent is to know of the person."""
    found: dict[tuple[Section, str], ProfileEntry] = {}
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


def outline_profile(known: Profile, room: int) -> tuple[str, frozenset[str]]:
    """The profile in a few lines within so many tokens, and the memories that are told by them: what comes first fits first."""
    told: list[ProfileEntry] = []
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


def _outline(entries: Sequence[ProfileEntry]) -> str:
    sections: dict[Section, list[str]] = {}
    for entry in entries:
        sections.setdefault(entry.section, []).append(_told(entry))
    return "\n".join([HEADING, *(f"- {section}: {'; '.join(told)}" for section, told in sections.items())])


def _told(entry: ProfileEntry) -> str:
    value = truncate_to_tokens(" ".join(entry.value.split()), LONGEST_TOLD)
    match entry.section:
        case Section.NAME | Section.NOTES:
            return value
        case Section.CONTACTS:
            return f"{entry.label} ({value})"
        case _:
            return value if value == entry.label else f"{entry.label} = {value}"


def _place(entry: ProfileEntry) -> tuple[str, str]:
    return (
        (entry.memory.created.isoformat(), entry.key) if entry.section is Section.NOTES else (entry.key, "")
    )


def parse_entry_name(name: str) -> tuple[Section | None, str]:
    """The section, where one is named, and the key. Raises InvalidInput."""
    before, dot, after = name.strip().partition(".")
    section = next((one for one in Section if one == before.strip().lower()), None) if dot else None
    if section is None and name.strip().lower() == Section.NAME:
        return Section.NAME, Section.NAME.value
    return section, profile_key(after if section is not None else name)


def no_entry(name: str) -> NotFound:
    return NotFound(f"The profile has no {name!r}.", advice="`mindhold profile` shows what there is.")


async def records(engine: Engine, agent: str, *, own: bool = False) -> list[Memory]:
    """The memories that hold it: the agent's own, and unless only these are asked for everybody's."""
    where = Filter(
        viewer=agent,
        agents=(agent,) if own else tuple({agent, DEFAULT_AGENT}),
        scopes=(GLOBAL,),
        tags=(TAG,),
        minimum_trust=LEAST_TRUST,
    )
    found = await engine.store.find(where, order=Order.NEWEST, limit=4 * MOST_ENTRIES)
    return [memory for memory in found if is_entry(memory)]


def is_entry(memory: Memory) -> bool:
    """Whether it is an entry of a profile."""
    metadata = memory.metadata
    return metadata.get(PROFILE_SECTION_KEY) in set(Section) and isinstance(metadata.get(KEY), str)


def entry_of(memory: Memory, *, agent: str) -> ProfileEntry:
    metadata = memory.metadata
    return ProfileEntry(
        section=Section(metadata[PROFILE_SECTION_KEY]),
        key=str(metadata[KEY]),
        label=str(metadata.get(LABEL) or metadata[KEY]),
        value=value_of(memory),
        memory=memory,
        shared=memory.agent != agent,
    )


def value_of(record: Memory | Version) -> str:
    """Where somebody amended the memory by hand, what its sentence says now."""
    metadata, content = record.metadata, record.content
    if metadata.get(WRITTEN) == content_hash(content):
        return str(metadata.get(VALUE, ""))
    section, label = str(metadata.get(PROFILE_SECTION_KEY)), str(metadata.get(LABEL, ""))
    before, _, after = profile_sentence(Section(section), label, "\0").partition("\0")
    if before and content.startswith(before) and content.endswith(after):
        return content[len(before) : len(content) - len(after)].strip()
    return content


def by_slot(memories: Iterable[Memory]) -> Mapping[Slot, list[Memory]]:
    """By section and key, what was written last first."""
    found: dict[Slot, list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: (one.updated, one.id), reverse=True):
        found.setdefault((str(memory.metadata[PROFILE_SECTION_KEY]), str(memory.metadata[KEY])), []).append(
            memory
        )
    return found
