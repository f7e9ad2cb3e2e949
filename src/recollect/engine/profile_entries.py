"""An entry of the profile as a memory: where it is kept, and how it is read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.draft import content_hash
from recollect.engine.text.profile_values import Section, key_of, sentence_of
from recollect.model.access import DEFAULT_AGENT
from recollect.model.errors import NotFound
from recollect.model.life import PROFILE
from recollect.model.memory import Memory, Version
from recollect.model.query import Filter, Order
from recollect.model.scope import GLOBAL

TAG = "profile"
SOURCE = "user_profile"
# Not "key", which is what secrets are called.
KEY, LABEL, VALUE, WRITTEN = "profile_entry", "profile_label", "profile_value", "profile_written"
Slot = tuple[str, str]  # a section and a key
MOST_ENTRIES = 500  # of one agent


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is known; `shared` where it is everybody's and not the agent's own."""

    section: Section
    key: str
    label: str  # as it was called; of a contact, the name
    value: str  # of a contact, what they are to the person
    memory: Memory
    shared: bool = False


def named(name: str) -> tuple[Section | None, str]:
    """The section, where one is named, and the key. Raises InvalidInput."""
    before, dot, after = name.strip().partition(".")
    section = next((one for one in Section if one == before.strip().lower()), None) if dot else None
    if section is None and name.strip().lower() == Section.NAME:
        return Section.NAME, Section.NAME.value
    return section, key_of(after if section is not None else name)


def no_entry(name: str) -> NotFound:
    return NotFound(f"The profile has no {name!r}.", advice="`recollect profile` shows what there is.")


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
    return metadata.get(PROFILE) in set(Section) and isinstance(metadata.get(KEY), str)


def entry_of(memory: Memory, *, agent: str) -> Entry:
    metadata = memory.metadata
    return Entry(
        section=Section(metadata[PROFILE]),
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
    section, label = str(metadata.get(PROFILE)), str(metadata.get(LABEL, ""))
    before, _, after = sentence_of(Section(section), label, "\0").partition("\0")
    if before and content.startswith(before) and content.endswith(after):
        return content[len(before) : len(content) - len(after)].strip()
    return content


def by_slot(memories: Iterable[Memory]) -> Mapping[Slot, list[Memory]]:
    """By section and key, what was written last first."""
    found: dict[Slot, list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: (one.updated, one.id), reverse=True):
        found.setdefault((str(memory.metadata[PROFILE]), str(memory.metadata[KEY])), []).append(memory)
    return found
