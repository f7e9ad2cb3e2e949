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
# Not "key", which is a name for secrets.
KEY, LABEL, VALUE, WRITTEN = "profile_entry", "profile_label", "profile_value", "profile_written"
Slot = tuple[str, str]  # section and key
MOST_ENTRIES = 500  # per agent
LEAST_TOKENS = 3  # tokens; less is no room for another entry
LONGEST_VALUE_TOKENS = 40  # tokens of one value in a context
HEADING = "Profile of the user:"


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile entry; `shared` if it belongs to everybody and not to the agent alone."""

    section: Section
    key: str
    label: str  # as the user called it; the name of a contact
    value: str  # for a contact, the relation to the user
    memory: Memory
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """The entries by section; within one by key, notes by time."""

    agent: str
    entries: tuple[ProfileEntry, ...]

    @property
    def name(self) -> str | None:
        return next((entry.value for entry in self.of(Section.NAME)), None)

    @property
    def preferences(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self.of(Section.PREFERENCES)}

    @property
    def facts(self) -> dict[str, str]:
        return {entry.key: entry.value for entry in self.of(Section.FACTS)}

    @property
    def contacts(self) -> list[tuple[str, str]]:
        return [(entry.label, entry.value) for entry in self.of(Section.CONTACTS)]

    @property
    def notes(self) -> list[str]:
        return [entry.value for entry in self.of(Section.NOTES)]

    def of(self, section: Section) -> list[ProfileEntry]:
        return [entry for entry in self.entries if entry.section is section]


async def profile(engine: Engine, agent: str) -> Profile:
    """The profile that the agent sees."""
    entries: dict[tuple[Section, str], ProfileEntry] = {}
    # The agent's own entries override shared ones, and later ones override earlier ones.
    for memory in sorted(
        await profile_memories(engine, agent), key=lambda item: (item.agent == agent, item.updated, item.id)
    ):
        entry = entry_of(memory, agent=agent)
        entries[entry.section, entry.key] = entry
    order = list(Section)
    return Profile(
        agent, tuple(sorted(entries.values(), key=lambda item: (order.index(item.section), *_sort_key(item))))
    )


def outline_profile(user_profile: Profile, room: int) -> tuple[str, frozenset[str]]:
    """The profile in a few lines of at most `room` tokens, and the ids of the memories in it. Earlier entries come first."""
    included: list[ProfileEntry] = []
    text = ""
    for entry in user_profile.entries:
        longer = _outline([*included, entry])
        if count_tokens(longer) > room:
            continue
        included.append(entry)
        text = longer
        if count_tokens(text) > room - LEAST_TOKENS:
            break
    return text, frozenset(entry.memory.id for entry in included)


def _outline(entries: Sequence[ProfileEntry]) -> str:
    sections: dict[Section, list[str]] = {}
    for entry in entries:
        sections.setdefault(entry.section, []).append(_entry_text(entry))
    return "\n".join([HEADING, *(f"- {section}: {'; '.join(texts)}" for section, texts in sections.items())])


def _entry_text(entry: ProfileEntry) -> str:
    value = truncate_to_tokens(" ".join(entry.value.split()), LONGEST_VALUE_TOKENS)
    match entry.section:
        case Section.NAME | Section.NOTES:
            return value
        case Section.CONTACTS:
            return f"{entry.label} ({value})"
        case _:
            return value if value == entry.label else f"{entry.label} = {value}"


def _sort_key(entry: ProfileEntry) -> tuple[str, str]:
    return (
        (entry.memory.created.isoformat(), entry.key) if entry.section is Section.NOTES else (entry.key, "")
    )


def parse_entry_name(name: str) -> tuple[Section | None, str]:
    """The section, if one is named, and the key. Raises InvalidInput."""
    before, dot, after = name.strip().partition(".")
    section = (
        next((candidate for candidate in Section if candidate == before.strip().lower()), None)
        if dot
        else None
    )
    if section is None and name.strip().lower() == Section.NAME:
        return Section.NAME, Section.NAME.value
    return section, profile_key(after if section is not None else name)


def entry_not_found(name: str) -> NotFound:
    return NotFound(f"The profile has no {name!r}.", advice="`mindhold profile` shows what there is.")


async def profile_memories(engine: Engine, agent: str, *, own: bool = False) -> list[Memory]:
    """The memories of a profile: the agent's own, and shared ones unless `own`."""
    where = Filter(
        viewer=agent,
        agents=(agent,) if own else tuple({agent, DEFAULT_AGENT}),
        scopes=(GLOBAL,),
        tags=(TAG,),
        minimum_trust=LEAST_TRUST,
    )
    memories = await engine.store.find(where, order=Order.NEWEST, limit=4 * MOST_ENTRIES)
    return [memory for memory in memories if is_entry(memory)]


def is_entry(memory: Memory) -> bool:
    """Whether the memory is a profile entry."""
    metadata = memory.metadata
    return metadata.get(PROFILE_SECTION_KEY) in set(Section) and isinstance(metadata.get(KEY), str)


def entry_of(memory: Memory, *, agent: str) -> ProfileEntry:
    metadata = memory.metadata
    return ProfileEntry(
        section=Section(metadata[PROFILE_SECTION_KEY]),
        key=str(metadata[KEY]),
        label=str(metadata.get(LABEL) or metadata[KEY]),
        value=entry_value(memory),
        memory=memory,
        shared=memory.agent != agent,
    )


def entry_value(record: Memory | Version) -> str:
    """The value of an entry; if somebody amended the memory, what its sentence says now."""
    metadata, content = record.metadata, record.content
    if metadata.get(WRITTEN) == content_hash(content):
        return str(metadata.get(VALUE, ""))
    section, label = str(metadata.get(PROFILE_SECTION_KEY)), str(metadata.get(LABEL, ""))
    before, _, after = profile_sentence(Section(section), label, "\0").partition("\0")
    if before and content.startswith(before) and content.endswith(after):
        return content[len(before) : len(content) - len(after)].strip()
    return content


def by_slot(memories: Iterable[Memory]) -> Mapping[Slot, list[Memory]]:
    """The memories by section and key, the latest first."""
    slots: dict[Slot, list[Memory]] = {}
    for memory in sorted(memories, key=lambda item: (item.updated, item.id), reverse=True):
        slots.setdefault((str(memory.metadata[PROFILE_SECTION_KEY]), str(memory.metadata[KEY])), []).append(
            memory
        )
    return slots
