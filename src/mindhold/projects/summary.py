"""The summary of a project: its sections (parse, merge, render, shorten) and the versioned memory that holds it."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.amend import AmendInput, amend
from mindhold.memories.prepare import QUARANTINE_FROM, content_hash, name_hash, prepare, safe_text
from mindhold.memories.write import RememberInput
from mindhold.model.errors import Changed, Conflict, ContentTooLarge, EmptyContent, Refused
from mindhold.model.memory import Kind, Memory, Version, moment_of
from mindhold.model.query import Filter
from mindhold.model.scope import DEFAULT_AGENT
from mindhold.projects.placement import PROJECT, open_project
from mindhold.text.injection import suspicion
from mindhold.text.similarity import content_words, difference_kinds, quantifiers, replaces, same_statement

SECTIONS = ("key_decisions", "tech_stack", "patterns", "gotchas")
INSIGHTS = "insights"
HEADINGS = {
    "key_decisions": "Key decisions",
    "tech_stack": "Tech stack",
    "patterns": "Patterns",
    "gotchas": "Gotchas",
    INSIGHTS: "Insights",
}
RANKS = ("key_decisions", "gotchas", "patterns", "tech_stack", INSIGHTS)  # most important first
FULLER = 0.75  # share of words that a statement needs of a longer one that includes it
FEWEST_WORDS = 3  # words that a statement needs to be included in another
SummaryEntry = tuple[str, str]  # section and text
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^\s*#{1,6}\s+|^\s*[-=*_]{3,}\s*$")
_NAMED = re.compile(
    r"^\s*(?:#{1,6}\s*)?[*_]{0,2}(?P<name>[A-Za-z][A-Za-z /&-]{2,40}?)[*_]{0,2}\s*:?\s*[*_]{0,2}\s*$"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_CALLED = {
    "key_decisions": ("decisions", "key decisions", "decisions made", "architectural decisions"),
    "tech_stack": ("tech stack", "technology stack", "technologies", "stack"),
    "patterns": ("patterns", "conventions", "coding patterns", "architectural patterns"),
    "gotchas": ("gotchas", "pitfalls", "warnings", "caveats", "known issues"),
    INSIGHTS: ("insights", "learnings", "key learnings", "lessons learned", "notes", "progress"),
}
_SECTION_OF = {name: section for section, names in _CALLED.items() for name in names}
# How people start to describe a decision, and a pitfall.
_DECIDED = re.compile(
    r"(?:(?:we|i|the team)(?:'ve| have)? )?(?:finally )?(?:decided|chose|agreed|adopted|settled on)\b|decision:",
    re.IGNORECASE,
)
_TRAP = re.compile(r"(?:gotcha|pitfall|caveat|beware|watch out|careful)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SummaryKnowledge:
    """The parts of a summary; lists run from the oldest entry to the newest."""

    narrative: str = ""
    key_decisions: tuple[str, ...] = ()
    tech_stack: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    gotchas: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()

    def entries(self, section: str) -> tuple[str, ...]:
        """Return the entries of a section."""
        entries: tuple[str, ...] = getattr(self, section)
        return entries

    def with_entries(self, section: str, entries: Iterable[str]) -> SummaryKnowledge:
        """Return the summary with another list for the section."""
        changed: dict[str, Any] = {section: tuple(entries)}
        return replace(self, **changed)

    def texts(self) -> Iterable[str]:
        """Return the narrative and all entries."""
        return chain([self.narrative], *(self.entries(name) for name in HEADINGS))

    def as_metadata(self) -> dict[str, Any]:
        """Return the metadata of its record."""
        return {"narrative": self.narrative, **{name: list(self.entries(name)) for name in HEADINGS}}

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any]) -> SummaryKnowledge:
        """Read it from metadata; what is missing or no text is empty."""
        lists = {
            name: tuple(entry for entry in metadata.get(name) or () if isinstance(entry, str))
            for name in HEADINGS
        }
        return cls(narrative=str(metadata.get("narrative") or ""), **lists)


def render_summary(knowledge: SummaryKnowledge, *, title: str) -> str:
    """Render the summary as Markdown."""
    blocks = [f"# {title}", knowledge.narrative]
    for name, heading in HEADINGS.items():
        if entries := knowledge.entries(name):
            blocks.append("\n".join([f"## {heading}", *(f"- {entry}" for entry in entries)]))
    return "\n\n".join(filter(None, blocks))


def entries_of(text: str, *, into: str) -> list[SummaryEntry]:
    """Split a text into entries with their sections: one per paragraph or bullet, without the marks.

    A heading that names a section sets it; otherwise an entry that starts like a decision or a pitfall is taken for one.
    """
    entries: list[SummaryEntry] = []
    section = ""
    grows = False  # whether the next line continues the last entry
    for line in text.splitlines():
        heading = _section_named(line)
        if heading or not line.strip() or _HEADING.match(line):
            section = heading or ("" if _HEADING.match(line) else section)
            grows = False
            continue
        bullet = _BULLET.match(line)
        content = " ".join(line[bullet.end() if bullet else 0 :].split())
        if grows and not bullet:
            before, words = entries[-1]
            entries[-1] = before, f"{words} {content}"
        elif content:
            entries.append((section or section_of(content, into), content))
        grows = bool(entries)
    return entries


def _section_named(line: str) -> str:
    match = _NAMED.match(line)
    marked = match and (line.lstrip().startswith(("#", "*", "_")) or line.rstrip().endswith((":", "*", "_")))
    return _SECTION_OF.get(" ".join(match["name"].casefold().split()), "") if match and marked else ""


def section_of(entry: str, into: str) -> str:
    """Return the section that the first words of an entry tell, or else `into`."""
    if _TRAP.match(entry):
        return "gotchas"
    return "key_decisions" if _DECIDED.match(entry) else into


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement and its words, so that only few statements need the exact comparison."""

    text: str
    words: frozenset[str] = field(repr=False)
    values: frozenset[str] = field(repr=False)  # words with a digit: a difference makes it another statement

    @classmethod
    def of(cls, text: str) -> _Said:
        words = frozenset(_WORD.findall(text.casefold()))
        return cls(text, words, frozenset(word for word in words if _DIGIT.search(word)))

    def repeats(self, other: _Said) -> bool:
        """Whether both statements say the same."""
        if self.text == other.text:
            return True
        near = 3 * len(self.words & other.words) >= 2 * max(len(self.words), len(other.words))
        return near and self.values == other.values and same_statement(self.text, other.text)

    def covers(self, other: _Said) -> bool:
        """Whether it says all that the other one says, and perhaps a little more."""
        if self.repeats(other):
            return True
        if self.values != other.values or 2 * len(self.words & other.words) < len(other.words):
            return False
        more, less = content_words(self.text), content_words(other.text)
        if len(less) < max(FEWEST_WORDS, FULLER * len(more)) or not less <= more:
            return False
        plain = quantifiers(self.text) == quantifiers(other.text)
        return plain and difference_kinds(self.text, other.text) <= {"words", "order"}


def merge_knowledge(knowledge: SummaryKnowledge, new: Iterable[SummaryEntry]) -> SummaryKnowledge:
    """Add new entries: known ones are skipped, and those that are outdated or less complete are removed.

    An entry that replaces another takes the more important section of the two. A known insight moves up if it is now called
    something more important.
    """
    parsed: dict[str, list[_Said]] = {}  # statements by text

    def statements_of(text: str) -> list[_Said]:
        if text not in parsed:
            parsed[text] = [_Said.of(part) for part in statements(text)]
        return parsed[text]

    for section, entry in new:
        new_statements = statements_of(entry)
        elsewhere = [statement for text in knowledge.texts() if text for statement in statements_of(text)]
        is_known = bool(new_statements) and all(
            any(other.covers(statement) for other in elsewhere) for statement in new_statements
        )
        replaced: dict[str, set[str]] = {
            name: {
                old
                for old in knowledge.entries(name)
                if _is_overtaken(statements_of(old), new_statements, only=is_known)
            }
            for name in HEADINGS
        }
        place = min((section, *(name for name in HEADINGS if replaced[name])), key=RANKS.index)
        if is_known and not (any(replaced.values()) and not replaced[place]):
            continue
        for name in HEADINGS:
            knowledge = knowledge.with_entries(
                name, (old for old in knowledge.entries(name) if old not in replaced[name])
            )
        knowledge = knowledge.with_entries(place, (*knowledge.entries(place), entry))
    return knowledge


def statements(text: str) -> list[str]:
    """Split a text into sentences."""
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()] or [text]


def _is_overtaken(old: Sequence[_Said], new: Sequence[_Said], *, only: bool) -> bool:
    """Whether the new statements repeat, include or replace every old one; with `only`, just repeat them."""
    if only:
        return len(old) == len(new) and all(any(newer.repeats(each) for newer in new) for each in old)
    return all(any(newer.covers(each) or replaces(newer.text, each.text) for newer in new) for each in old)


NARRATIVE = "narrative"
HEAVIEST = 5  # a summary's JSON may be so many times larger than its characters
_HEAVIEST_CHARACTER = 12  # the JSON of a character that takes two escapes
_CUT_AT_LEAST = 0.5  # share of the room: no cut at a blank before that


@dataclass(frozen=True, slots=True)
class _Step:
    """One way to shorten a section: its entries to `longest` characters (0: removed), except the newest `spared` ones."""

    section: str
    longest: int
    spared: int = 0


# From the smallest loss to the largest: old insights are shortened first, decisions are removed last.
_STEPS = (
    _Step(INSIGHTS, 240, 3),
    _Step(INSIGHTS, 120, 3),
    _Step("patterns", 240),
    _Step("gotchas", 240),
    _Step("key_decisions", 320),
    _Step(INSIGHTS, 0, 3),
    _Step("patterns", 120),
    _Step("patterns", 0, 5),
    _Step("tech_stack", 80),
    _Step("tech_stack", 0, 40),
    _Step("gotchas", 160),
    _Step("gotchas", 0, 20),
    _Step(INSIGHTS, 240),
    _Step("key_decisions", 160, 3),
    _Step(NARRATIVE, 2),
    _Step("key_decisions", 0, 60),
    _Step("gotchas", 0, 10),
    _Step("key_decisions", 0, 40),
    _Step(INSIGHTS, 0, 1),
    _Step(NARRATIVE, 4),
    _Step("patterns", 0, 1),
    _Step("tech_stack", 0, 10),
    _Step("gotchas", 0, 3),
    _Step("key_decisions", 0, 3),
    _Step(NARRATIVE, 20),
)


def fits(knowledge: SummaryKnowledge, *, title: str, longest: int) -> bool:
    """Whether the rendered summary has at most so many characters, and its JSON isn't too large to store."""
    return _excess(knowledge, title=title, longest=longest) <= 0


def shorten_knowledge(knowledge: SummaryKnowledge, *, title: str, longest: int) -> SummaryKnowledge:
    """Shorten the summary until it fits, losing as little as possible."""
    for step in _STEPS:
        if fits(knowledge, title=title, longest=longest):
            return knowledge
        if step.section == NARRATIVE:
            knowledge = replace(
                knowledge, narrative=cut_sentences(knowledge.narrative, longest // step.longest)
            )
        else:
            knowledge = _taken(knowledge, step, title=title, longest=longest)
    if fits(knowledge, title=title, longest=longest):
        return knowledge
    few = SummaryKnowledge()  # of what is short by now
    for name in ("key_decisions", "gotchas", INSIGHTS):
        few = few.with_entries(name, knowledge.entries(name)[-1:])
    return few


def _taken(knowledge: SummaryKnowledge, step: _Step, *, title: str, longest: int) -> SummaryKnowledge:
    """Apply as much of a step as is needed."""
    entries = knowledge.entries(step.section)
    cut_entries = list(entries[: max(0, len(entries) - step.spared)])
    spared = entries[len(cut_entries) :]
    excess = _excess(knowledge, title=title, longest=longest)
    for place, entry in enumerate(entries[: len(cut_entries)]):
        if excess <= 0:
            excess = _excess(knowledge, title=title, longest=longest)
            if excess <= 0:
                break
        cut_entries[place] = cut_sentences(entry, step.longest) if step.longest else ""
        excess -= len(entry) - len(cut_entries[place])
        knowledge = knowledge.with_entries(step.section, (*filter(None, cut_entries), *spared))
    return knowledge


def _excess(knowledge: SummaryKnowledge, *, title: str, longest: int) -> int:
    """Return how many characters are too many, at least."""
    over = len(render_summary(knowledge, title=title)) - longest
    heavy = len(json.dumps(knowledge.as_metadata())) - HEAVIEST * longest
    return max(over, -(-heavy // _HEAVIEST_CHARACTER))


def cut_sentences(text: str, longest: int) -> str:
    """Return the first sentences that fit, or else the start of the first one."""
    if len(text) <= longest:
        return text
    end = 0
    for sentence in statements(text):
        start = text.find(sentence, end)
        if start < 0 or start + len(sentence) > longest:
            break
        end = start + len(sentence)
    if end:
        return text[:end]
    blank = text.rfind(" ", int(longest * _CUT_AT_LEAST), longest - 1)
    return text[: blank if blank > 0 else longest - 1].rstrip() + "…"


TOPIC = "project summary"
SUMMARY_OF, VERSION, WRITTEN, LAST_MESSAGE = "summary_of", "version", "written", "last_summarized_message_id"
TRIGGER, MERGED_BY, RESTORED, SOURCES = "trigger", "merged_by", "restored_version", "sources"
BY_HAND = "hand"  # amended outside of these use cases
NOTHING = "0-none"  # the etag of a missing summary
ANY = "*"  # matches the etag of any existing summary
LONGEST_SUMMARY = 12_000
PATIENCE = 15.0  # seconds in which other processes may write first, again and again
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds
Sources = Mapping[
    str, tuple[str, ...]
]  # marks of conversations, each with those of its entries (summary_sources)


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a project; version 0 while there is none."""

    project: str
    text: str = ""
    knowledge: SummaryKnowledge = field(default_factory=SummaryKnowledge)
    version: int = 0
    updated: datetime | None = None
    last_message: str | None = None  # the last message, in the order of saving, that is included
    trigger: str = ""
    merged_by: str = ""
    restored: int | None = None  # the version that was restored
    sources: Sources = field(default_factory=dict)
    memory: str | None = None  # the id of its record
    indexed: bool = False  # whether it has a vector

    @property
    def etag(self) -> str:
        """A tag that changes with the version and the text."""
        return f"{self.version}-{content_hash(self.text)[:8]}" if self.memory else NOTHING


async def project_summary(engine: Engine, project: str | None, *, agent: str) -> Summary:
    """Return the summary of a project. Raises ScopeNotFound."""
    name = (await open_project(engine, project)).name
    return await _stated(engine, await held_summary(engine, name, agent=agent), name)


async def write_summary(
    engine: Engine,
    scope: str,
    change: Callable[[Summary], Summary],
    *,
    agent: str,
    expected: str | None = None,
) -> Summary:
    """Apply `change` to the summary, again if somebody else changes it meanwhile. `change` runs in a thread.

    Writers of this process take turns; collisions with other processes are retried after random, growing pauses. Raises
    Changed if it isn't the `expected` one, Refused if it reads like instructions to its reader.
    """
    # A summary is one record: it must not be split like other long texts.
    longer = max(engine.settings.intake.part_length, LONGEST_SUMMARY + 2 * len(title_of(scope)))
    roomy = engine.with_settings(intake=replace(engine.settings.intake, part_length=longer))
    clock = asyncio.get_running_loop().time
    async with engine.summary_locks.of(scope):
        until, pause = clock() + PATIENCE, SHORTEST_PAUSE
        while True:
            record = await held_summary(engine, scope, agent=agent)
            before = await _stated(engine, record, scope)
            check_expected(before, expected)
            after = replace(await asyncio.to_thread(change, before), version=before.version + 1)
            _refuse_instructions(_text_of(engine, after))
            try:
                if record is None:
                    return summary_of(await _begun(roomy, after, agent=agent), scope)
                return summary_of(await _amended(roomy, record, after, agent=agent), scope)
            except Conflict as error:
                faster = record is None or isinstance(error, Changed)  # somebody else wrote first
                if not faster or clock() > until:
                    raise
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)


def check_expected(summary: Summary, expected: str | None) -> None:
    """Raise Changed if the summary isn't the one that the caller has read."""
    if expected is None or expected == summary.etag or (expected == ANY and summary.memory):
        return
    raise Changed(
        f"The summary of {summary.project!r} is another one by now: {summary.etag}.",
        advice="Read it again, then try again.",
    )


async def held_summary(engine: Engine, scope: str, *, agent: str) -> Memory | None:
    """Return the record of the summary; the agent's own before a shared one."""
    records = await _records(engine, scope, agent=agent)
    order = (agent, DEFAULT_AGENT)

    def rank(memory: Memory) -> tuple[int, str]:
        return order.index(memory.agent) if memory.agent in order else len(order), memory.id

    return min(records, key=rank, default=None)


def summary_of(record: Memory | Version, project: str) -> Summary:
    """Read the summary from its record; a text that was amended by hand becomes the narrative."""
    metadata = record.metadata
    knowledge = SummaryKnowledge.of_metadata(metadata)
    by = metadata.get(MERGED_BY)
    if _is_by_hand(record):
        knowledge = SummaryKnowledge(narrative=record.content.removeprefix(f"# {title_of(project)}").strip())
        by = BY_HAND
    restored = metadata.get(RESTORED)
    summary = Summary(
        project=project,
        text=record.content,
        knowledge=knowledge,
        version=_noted_version(record),
        last_message=_text_at(metadata.get(LAST_MESSAGE)),
        trigger=_text_at(metadata.get(TRIGGER)) or "",
        merged_by=_text_at(by) or "",
        restored=restored if isinstance(restored, int) else None,
        sources=_sources_at(metadata.get(SOURCES)),
    )
    if isinstance(record, Version):
        return replace(summary, memory=record.memory_id)
    return replace(summary, memory=record.id, updated=record.updated, indexed=record.embedded_by is not None)


def numbered(records: Sequence[Memory | Version]) -> list[int]:
    """Return the version number of each record, oldest first; an amendment by hand counts unless the text stayed the same."""
    numbers: list[int] = []
    for place, record in enumerate(records):
        before = numbers[-1] if numbers else 0
        same = place and records[place - 1].content == record.content
        if same and _noted_version(record) == _noted_version(records[place - 1]):
            numbers.append(before)
        else:
            numbers.append(max(_noted_version(record), before + 1))
    return numbers


def _is_by_hand(record: Memory | Version) -> bool:
    return record.metadata.get(WRITTEN) != content_hash(record.content)


def _noted_version(record: Memory | Version) -> int:
    version = record.metadata.get(VERSION)
    return version if isinstance(version, int) else 1


def checked_words(engine: Engine, text: str, *, longest: int) -> str:
    """Return a safe and bounded text. Raises Refused for instructions: a summary is given to every conversation."""
    if len(text) > longest:
        raise ContentTooLarge(
            f"The text has {len(text):,} characters; a summary takes {longest:,}.", advice="Condense it."
        )
    _refuse_instructions(text)
    safe = safe_text(engine, text).strip()
    if not safe:
        raise EmptyContent("There is nothing in the text.", advice="Give it some words.")
    return safe


def _refuse_instructions(text: str) -> None:
    """Raise Refused for a text that reads like instructions."""
    doubt = suspicion(text)
    if doubt.score >= QUARANTINE_FROM:
        raise Refused(
            f"The text reads like instructions to whoever is given it ({', '.join(doubt.reasons)}).",
            advice="Say what is known about the project, not what a reader is to do.",
        )


def line_of(engine: Engine, entry: str) -> str:
    """Return a list entry as safe text on one line."""
    return " ".join(safe_text(engine, entry).split())


def _text_of(engine: Engine, summary: Summary) -> str:
    return safe_text(engine, render_summary(summary.knowledge, title=title_of(summary.project)))


def title_of(project: str) -> str:
    """Return the heading of a summary."""
    return f"Summary of {project}"


async def _stated(engine: Engine, held: Memory | None, project: str) -> Summary:
    if held is None:
        return Summary(project)
    stated = summary_of(held, project)
    if not _is_by_hand(held):
        return stated
    versions = await engine.store.versions_of(held.id)
    return replace(stated, version=numbered([*versions, held])[-1])


async def _begun(engine: Engine, summary: Summary, *, agent: str) -> Memory:
    """Store the first summary. All share one hash, so that the store accepts one of several at once. Raises Conflict."""
    request = RememberInput(
        content=_text_of(engine, summary),
        kind=Kind.CONTEXT,
        scope=summary.project,
        topic=TOPIC,
        importance=0.9,
        anchor=True,
        dialect=PROJECT,
        metadata=_metadata(engine, summary),
        keep_noise=True,
    )
    [prepared] = prepare(engine, request, agent=agent)
    put = await prepared.embedded_put(engine, content_hash=name_hash(title_of(summary.project)))
    await engine.store.apply([replace(put, gist="")])
    records = await _records(engine, summary.project, agent=agent)
    # One that was amended has another hash.
    if any(record.agent == agent and record.id != put.memory.id for record in records):
        await engine.store.erase([put.memory.id])
        raise Changed(f"The summary of {summary.project!r} was begun by somebody else.", advice="Try again.")
    return put.memory


async def _amended(engine: Engine, held: Memory, summary: Summary, *, agent: str) -> Memory:
    request = AmendInput(
        id=held.id,
        content=_text_of(engine, summary),
        occurred=engine.clock(),
        metadata=_metadata(engine, summary),
        expected=moment_of(held),
    )
    try:
        return await amend(engine, request, agent=agent)
    except Changed as error:
        raise Changed(
            f"The summary of {summary.project!r} was changed meanwhile.", advice="Try again."
        ) from error


def _metadata(engine: Engine, summary: Summary) -> dict[str, Any]:
    extras = {
        LAST_MESSAGE: summary.last_message,
        TRIGGER: summary.trigger or None,
        MERGED_BY: summary.merged_by or None,
        RESTORED: summary.restored,
        SOURCES: {mark: list(entries) for mark, entries in summary.sources.items()} or None,
    }
    return {
        SUMMARY_OF: summary.project,
        VERSION: summary.version,
        WRITTEN: content_hash(_text_of(engine, summary)),
        **summary.knowledge.as_metadata(),
        **{name: value for name, value in extras.items() if value is not None},
    }


async def _records(engine: Engine, scope: str, *, agent: str) -> list[Memory]:
    where = Filter(
        viewer=agent, scopes=(scope,), kinds=(Kind.CONTEXT,), topic=TOPIC, minimum_trust=LEAST_TRUST
    )
    return [memory for memory in await engine.store.find(where) if SUMMARY_OF in memory.metadata]


def _sources_at(value: Any) -> Sources:
    if not isinstance(value, Mapping):
        return {}
    return {
        mark: tuple(map(str, entries)) for mark, entries in value.items() if isinstance(entries, list | tuple)
    }


def _text_at(value: Any) -> str | None:
    return value if isinstance(value, str) else None
