"""Where the entries of a project summary come from, and its versions without a conversation that is forgotten.

A summary names no conversation: it keeps a mark of each, with marks of the entries that came from it. What a model wrote
can't be told apart, so that such a conversation has the mark REWORDED instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from mindhold.access.secrets import fingerprint
from mindhold.capture.extracted_items import CAPTURED
from mindhold.engine import Engine
from mindhold.memories.prepare import content_hash, index_memory, name_hash, own_keywords
from mindhold.model.memory import ANY_STATUS, Kind, Memory, Version
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE
from mindhold.model.tokens import count_tokens
from mindhold.ports.store import Change, Keep
from mindhold.projects.summary import (
    HEADINGS,
    INSIGHTS,
    LONGEST_SUMMARY,
    SOURCES,
    SUMMARY_OF,
    TOPIC,
    VERSION,
    WRITTEN,
    Sources,
    Summary,
    SummaryEntry,
    SummaryKnowledge,
    line_of,
    merge_knowledge,
    numbered,
    render_summary,
    shorten_knowledge,
    summary_of,
    title_of,
)

REWORDED = "*"  # among the marks of a conversation's entries: a model has worked them in
OTHERS = "*"  # among the marks of conversations: more of them than there is room to name, all reworded
LONGEST_SOURCES = 3_000  # characters of the marks, as JSON: a summary's metadata is bounded
REWRITTEN_FROM = "rewritten_from"  # metadata: the record that it takes the place of
MOST_KNOWN = 1_000  # captured memories that a summary is made of anew
SECTION_OF_KIND = {
    Kind.DECISION: "key_decisions",
    Kind.GOTCHA: "gotchas",
    Kind.ERROR: "gotchas",
    Kind.PATTERN: "patterns",
    Kind.PREFERENCE: "patterns",
    Kind.ARCHITECTURE: INSIGHTS,
    Kind.CONTEXT: INSIGHTS,
}
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # digits alone could be taken for personal data


def conversation_mark(conversation: str) -> str:
    """Return the mark of a conversation."""
    return fingerprint(conversation)[:12].translate(_LETTERS)


def entry_mark(entry: str) -> str:
    """Return the mark of an entry."""
    return content_hash(entry)[:8].translate(_LETTERS)


def with_sources(
    sources: Sources, drawn: Mapping[str, Iterable[str]], whole: SummaryKnowledge, short: SummaryKnowledge
) -> Sources:
    """Return the sources of a summary that rules made: `drawn` has the new entries by conversation.

    `short` is what became of `whole`: an entry may be cut, and then has another mark.
    """
    known = {conversation: set(marks) for conversation, marks in sources.items()}
    for conversation, entries in drawn.items():
        known.setdefault(conversation_mark(conversation), set()).update(map(entry_mark, entries))
    now = {
        entry_mark(entry): entry_mark(cut)
        for section in HEADINGS
        for entry in whole.entries(section)
        if (cut := _cut_form(entry, short.entries(section)))
    }
    kept: dict[str, tuple[str, ...]] = {}
    for conversation, marks in known.items():
        still = sorted({now[mark] for mark in marks if mark in now})
        if REWORDED in marks:
            still = [REWORDED, *still]
        if still:
            kept[conversation] = tuple(still)
    return _bounded(kept)


def reworded(sources: Sources, conversations: Iterable[str]) -> Sources:
    """Return the sources of a summary that a model made of these conversations and of all that was known."""
    marks = [*sources, *(conversation_mark(conversation) for conversation in conversations)]
    return _bounded(dict.fromkeys(marks, (REWORDED,)))


def _cut_form(entry: str, entries: Sequence[str]) -> str:
    """Return the entry as it is after shortening; empty if it was removed."""
    if entry in entries:
        return entry
    return next((cut for cut in entries if cut and entry.startswith(cut.removesuffix("…"))), "")


def _bounded(sources: Mapping[str, tuple[str, ...]]) -> Sources:
    """Drop the oldest marks if there are too many: then any other conversation may be in the summary too."""
    bounded = dict(sources)
    while len(json.dumps(bounded)) > LONGEST_SOURCES:
        oldest = next(mark for mark in bounded if mark != OTHERS)
        del bounded[oldest]
        bounded[OTHERS] = (REWORDED,)
    return bounded


@dataclass(frozen=True, slots=True)
class SummaryRewrite:
    """A summary without some conversations: what takes the place of its record, and which versions change.

    Nothing takes its place if all that it said came from them.
    """

    record: Memory
    rewritten: tuple[int, ...]
    dropped: tuple[int, ...]
    now: Summary | None
    versions: tuple[Version, ...] = ()


async def rewrites_without(
    engine: Engine, conversations: Collection[str], scopes: Collection[str]
) -> list[SummaryRewrite]:
    """Return how every summary changes that holds words of these conversations, which said something in these scopes."""
    marks = {conversation_mark(conversation) for conversation in conversations}
    where = Filter(viewer=EVERYONE, kinds=(Kind.CONTEXT,), topic=TOPIC, statuses=ANY_STATUS)
    rewrites: list[SummaryRewrite] = []
    async for batch in engine.store.scan(where):
        for record in batch:
            if SUMMARY_OF not in record.metadata:
                continue
            others = record.scope in scopes
            versions = await engine.store.versions_of(record.id)
            records: list[Version | Memory] = [*versions, record]
            if any(_holds(summary_of(one, record.scope), marks, others) for one in records):
                known = await _known_elsewhere(engine, record, conversations)
                rewrites.append(_rewrite(engine, record, versions, marks, known, others=others))
    return rewrites


def _holds(summary: Summary, marks: Collection[str], others: bool) -> bool:
    return any(mark in marks or (mark == OTHERS and others) for mark in summary.sources)


async def _known_elsewhere(
    engine: Engine, record: Memory, conversations: Collection[str]
) -> list[SummaryEntry]:
    """Return the summary's entries that were captured in other conversations, the oldest first."""
    where = Filter(
        viewer=EVERYONE, scopes=(record.scope,), agents=(record.agent,), kinds=tuple(SECTION_OF_KIND)
    )
    named = set(summary_of(record, record.scope).sources)
    memories = await engine.store.find(where, limit=MOST_KNOWN)
    return [
        (SECTION_OF_KIND[memory.kind], line_of(engine, memory.content))
        for memory in reversed(memories)
        if memory.provenance.source == CAPTURED
        and (conversation := memory.provenance.conversation or "") not in conversations
        and conversation_mark(conversation) in named
    ]


def _rewrite(
    engine: Engine,
    record: Memory,
    versions: Sequence[Version],
    marks: Set[str],
    known: Sequence[SummaryEntry],
    *,
    others: bool,
) -> SummaryRewrite:
    """Plan the rewrite. A version that a model worded is dropped; the present one is then made anew of what is left."""
    records: list[Version | Memory] = [*versions, record]
    rewritten: list[int] = []
    dropped: list[int] = []
    kept: list[Version] = []
    clean = now = Summary(record.scope)  # what is known without them
    for one, number in zip(records, numbered(records), strict=True):
        summary = replace(summary_of(one, record.scope), version=number)
        holds = _holds(summary, marks, others)
        if holds:
            sources = {mark: entries for mark, entries in summary.sources.items() if mark not in marks}
            gone = {entry for mark in marks for entry in summary.sources.get(mark, ())}
            if REWORDED in gone or not marks & summary.sources.keys():
                knowledge = clean.knowledge
                if one is record:
                    knowledge = merge_knowledge(knowledge, known)
                    title = title_of(record.scope)
                    knowledge = shorten_knowledge(knowledge, title=title, longest=LONGEST_SUMMARY)
                    sources = {mark: (REWORDED,) for mark in sources if mark != OTHERS}
            else:
                gone -= {entry for entries in sources.values() for entry in entries}
                knowledge = _without(summary.knowledge, gone)
            summary = replace(summary, knowledge=knowledge, sources=sources)
        empty = holds and not any(summary.knowledge.texts())
        if one is record:
            now = summary
            (dropped if empty and not kept else rewritten).extend([number] if holds else [])
        elif holds and (empty or summary.knowledge == clean.knowledge):
            dropped.append(number)
            continue
        else:
            assert isinstance(one, Version)
            rewritten += [number] if holds else []
            kept.append(_version_of(engine, one, summary) if holds else one)
        clean = summary
    is_gone = not kept and not any(now.knowledge.texts())
    return SummaryRewrite(
        record, tuple(rewritten), tuple(dropped), None if is_gone else now, () if is_gone else tuple(kept)
    )


def _without(knowledge: SummaryKnowledge, gone: Collection[str]) -> SummaryKnowledge:
    """Return the summary without the entries of these marks; a text that was amended by hand has them as lines."""
    lines = knowledge.narrative.split("\n")
    kept_lines = [line for line in lines if entry_mark(line.strip().removeprefix("- ")) not in gone]
    rest = replace(knowledge, narrative="\n".join(kept_lines).strip())
    for section in HEADINGS:
        kept = [entry for entry in knowledge.entries(section) if entry_mark(entry) not in gone]
        rest = rest.with_entries(section, kept)
    return rest


def _version_of(engine: Engine, version: Version, summary: Summary) -> Version:
    text, metadata = _told(engine, version, summary)
    keywords = own_keywords(text, metadata)
    return replace(version, content=text, metadata=metadata, keywords=keywords)


def _told(engine: Engine, record: Memory | Version, summary: Summary) -> tuple[str, dict[str, object]]:
    """Return the text of a rewritten summary and its metadata."""
    text = render_summary(summary.knowledge, title=title_of(summary.project))
    metadata = {
        **record.metadata,
        **summary.knowledge.as_metadata(),
        VERSION: summary.version,
        WRITTEN: content_hash(text),
        SOURCES: {mark: list(entries) for mark, entries in summary.sources.items()},
    }
    return text, metadata


async def apply_rewrite(engine: Engine, rewrite: SummaryRewrite) -> None:
    """Write what takes the place of a summary; erasing its record is left to the caller. A repeated call does nothing.

    The new record has another id: an erased record has no earlier version that could be read again.
    """
    record, now = rewrite.record, rewrite.now
    if now is None:
        return
    where = Filter(viewer=EVERYONE, scopes=(record.scope,), agents=(record.agent,), topic=TOPIC)
    for other in await engine.store.find(replace(where, statuses=ANY_STATUS)):
        if other.metadata.get(REWRITTEN_FROM) == record.id:
            return
    text, metadata = _told(engine, record, now)
    new_id = engine.new_id()
    memory = replace(
        record,
        id=new_id,
        content=text,
        content_hash=name_hash(f"{title_of(record.scope)} {new_id}"),
        tokens=count_tokens(text),
        keywords=own_keywords(text, metadata),
        metadata={**metadata, REWRITTEN_FROM: record.id},
        merged_from=(),
        updated=engine.clock(),
        embedded_by=None,
    )
    matrix = await engine.vector_source.embed([text])
    vector = None if matrix is None else matrix[0]
    put = replace(index_memory(memory, engine.zone()).put(vector, engine.vector_source.model), gist="")
    keeps: list[Change] = [
        Keep(replace(version, memory_id=new_id, number=number))
        for number, version in enumerate(rewrite.versions, 1)
    ]
    await engine.store.apply([put, *keeps])
