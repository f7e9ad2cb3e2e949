"""Search hits of past conversations: their names, the words that answer, and the memories that belong to them."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from mindhold.conversations.messages import is_message, session_of
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.history.excerpts import (
    LONGEST_EXCERPT,
    LONGEST_SUMMARY,
    LONGEST_TITLE,
    excerpt_of,
    first_safe_line,
    safe_line,
    shortened_line,
    undecorated_line,
)
from mindhold.history.projects import ProjectSelection, last_moment, worked_in
from mindhold.history.ranking import LookupResult, RankedSession, held_in, relevance, unlike
from mindhold.memories.recall import Hit, RecallInput, recall
from mindhold.memories.reflect import REFLECTION
from mindhold.model.lexemes import lexemes
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.ports.history import IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role
from mindhold.text.pattern import LazyPattern
from mindhold.text.resolution import says_how_resolved
from mindhold.text.timeframe import Timeframe

LONGEST_LOOK = 40_000  # characters of one utterance that are looked at
SPEECH = 1.5  # what a word is worth that somebody said, against one that a tool was given or gave back
INHERITED = 0.5  # what a word of the prompt is worth for the answer to it
CONCLUDED, RESOLVED = 3.0, 5.0  # what it is worth to say what came of it; to say how, where that was asked
TALK = 0.7  # of what only announces what is done next
FURTHER = 0.15  # that each passage further on costs
LEAST_LETTERS = 25  # of a statement: "Done." tells nothing
_SENTENCE_END = LazyPattern(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_HOW = LazyPattern(
    r"\b(?:fix(?:ed|es|ing)?|solv(?:e[ds]?|ing)|resolv(?:e[ds]?|ing)|repair(?:ed|ing)?|debug(?:ged)?|work(?:ed)? around|get rid of|got rid of)\b"
    r"|\b(?:why|cause[ds]?|reason|culprit|warum|wieso|weshalb|ursache|behoben|gelöst|por ?qu[eé]|pourquoi)\b"
    r"|해결|고쳤|수정|원인|왜|解決|修正|原因|なぜ|为什么|為什麼|怎么解决",
    re.IGNORECASE,
)
_CONCLUDES = LazyPattern(
    r"\b(?:fixed|fixes|resolved|solved|implemented|updated|replaced|renamed|removed|increased|decreased|changed|added|created|moved|decided|agreed|works now"
    r"|(?:all|the) tests pass|because|due to|caused by|root cause|turns? out|turned out|found (?:it|the (?:issue|problem|bug|cause|culprit))"
    r"|the (?:fix|cause|reason|problem|issue|culprit|solution|answer) (?:is|was)|behoben|gelöst|geändert|hinzugefügt|weil|ursache|entschieden)\b"
    r"|수정했|추가했|완료|해결|변경했|원인|때문|修正し|追加し|変更し|原因|ため|已修|已添加|因为|因為",
    re.IGNORECASE,
)
_CAUSE = LazyPattern(
    r"\b(?:because|due to|caused by|root cause|turned out|turns out|found (?:it|the (?:issue|problem|bug|cause|culprit))"
    r"|the (?:fix|cause|reason|problem|issue|culprit|solution) (?:is|was)|that fixes|weil|ursache)\b|원인|때문|原因|ため|因为|因為",
    re.IGNORECASE,
)
_TALK = LazyPattern(
    r"(?:(?:ok(?:ay)?|sure|great|good|perfect|now|alright|excellent)\b[,.! ]*)*(?:let me|i'?ll|i will|now i|i'?m going to|let's|i need to)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """An utterance, and where in it that is said which the question asks how; else `place` is 0."""

    said: IndexedStep
    place: int = 0


def asks_how(query: str) -> bool:
    """Whether it asks how something was resolved, or what caused it."""
    return _HOW.search(query) is not None


def answer_statement(
    passages: Sequence[Sequence[IndexedStep]], wanted: Collection[str], *, how: bool
) -> AnswerStatement | None:
    """The utterance that answers, of passages in order, the first of which is the one that was found; None where nothing was said.

    What the assistant says came of it goes before the prompt that asked for it, unless it shares no word with the question and
    the question isn't `how`; what people say goes before what tools do, the earlier before the later.
    """
    best: tuple[float, AnswerStatement] | None = None
    sought = frozenset(wanted)
    prompt: frozenset[str] = frozenset()
    for number, passage in enumerate(passages):
        for one in passage:
            if number and one.role not in (Role.USER, Role.CLAUDE):
                continue  # further on only what somebody says of it answers
            own = sought.intersection(lexemes(one.text[:LONGEST_LOOK]))
            prompt = own if one.role is Role.USER else prompt
            place, worth = _concluding(one, how=how)
            if worth and not own and not how:
                place, worth = 0, 0.0
            inherited = INHERITED * len(prompt - own) if worth else 0.0
            value = (1 + len(own) + inherited) * _speech(one) + worth - FURTHER * number
            if best is None or value > best[0]:
                best = value, AnswerStatement(one, place if how else 0)
    return best[1] if best else None


def concludes(one: IndexedStep) -> bool:
    """Whether the assistant says what came of something."""
    return _concluding(one, how=False)[1] > 0


def _speech(one: IndexedStep) -> float:
    if one.role is Role.CLAUDE:
        announces = len(one.text) < 10 * LEAST_LETTERS and _TALK.match(one.text) is not None
        return SPEECH * TALK if announces else SPEECH
    return SPEECH if one.role is Role.USER else 1.0


def _concluding(one: IndexedStep, *, how: bool) -> tuple[int, float]:
    """Where it says what came of it, and what that is worth."""
    if one.role is not Role.CLAUDE or len(one.text) < LEAST_LETTERS:
        return 0, 0.0
    text = one.text[:LONGEST_LOOK]
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    concluded: int | None = None
    announces = False
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        sentence = text[start:end]
        announces = _TALK.match(sentence) is not None if sentence.strip() else announces
        if announces or sentence.rstrip().endswith(("?", "？")):
            continue
        if how and (_CAUSE.search(sentence) or says_how_resolved(sentence)):
            return start, RESOLVED
        if concluded is None and _CONCLUDES.search(sentence):
            concluded = start
    if concluded is None or announces:  # it ends with what is done next
        return 0, 0.0
    return concluded, CONCLUDED


TRANSCRIPT, ARCHIVE, MEMORY = "transcript", "archive", "memory"
MOST_JOINED = 3
LOOKED_AT = 30  # memories of a conversation
LONGEST_JOINED = 200


@dataclass(frozen=True, slots=True)
class JoinedMemory:
    """A memory that came from a conversation, told briefly."""

    id: str
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class HistoryHit:
    """A past conversation that answers, where in it, and what was remembered of it."""

    session_id: str  # empty: a memory of no conversation
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    source: str
    score: float
    title: str = ""
    agent: str = ""  # whose conversation: claude, codex, gemini, cursor
    file: str | None = None
    line: int | None = None
    memory_id: str | None = None  # where it is found by a memory
    memories: tuple[JoinedMemory, ...] = ()


async def hits_from_memories(
    engine: Engine, query: str, place: ProjectSelection, *, agent: str, limit: int, but: Collection[str] = ()
) -> list[HistoryHit]:
    """What the store remembers, each conversation once, best first; nothing of those sessions in `but`."""
    if not place.remembers:
        return []
    request = RecallInput(
        query=query, scope=place.scope, everywhere=place.scope is None, scope_only=True, limit=4 * limit
    )
    recalled = await recall(engine, request, agent=agent)
    found: dict[str, HistoryHit] = {}
    for hit in recalled.hits:
        one = _of_memory(hit)
        if not one.session_id or one.session_id not in but:
            found.setdefault(one.session_id or hit.memory.id, one)
    return list(found.values())


async def hits_with_memories(
    engine: Engine, found: Sequence[HistoryHit], *, wanted: Collection[str], agent: str
) -> list[HistoryHit]:
    """With the memories that came from each, those first that say most of what is wanted."""
    return list(await asyncio.gather(*(_completed(engine, one, wanted, agent=agent) for one in found)))


async def _completed(engine: Engine, found: HistoryHit, wanted: Collection[str], *, agent: str) -> HistoryHit:
    """A conversation that only the store knows is told by what somebody said of it at its end, where somebody did."""
    if not found.session_id:
        return found
    where = Filter(viewer=agent, conversation=found.session_id, minimum_trust=LEAST_TRUST)
    memories = await engine.store.find(where, order=Order.NEWEST, limit=LOOKED_AT)
    if found.source == MEMORY:
        said = next((one for one in memories if REFLECTION in one.tags), None)
        said = said or await _reflection(engine, where, full=len(memories) == LOOKED_AT)
        found = replace(found, summary=shortened_line(said.content, LONGEST_SUMMARY)) if said else found
    told = [one for one in memories if not is_message(one) and REFLECTION not in one.tags]
    knowing = [one for one in told if one.id != found.memory_id]
    knowing.sort(key=lambda one: (-len(set(wanted).intersection(lexemes(one.content))), -one.importance))
    joined = (
        JoinedMemory(one.id, one.kind.value, shortened_line(one.content, LONGEST_JOINED))
        for one in knowing[:MOST_JOINED]
    )
    return replace(found, memories=tuple(joined))


async def _reflection(engine: Engine, where: Filter, *, full: bool) -> Memory | None:
    if not full:
        return None
    said = await engine.store.find(replace(where, tags=(REFLECTION,)), order=Order.NEWEST, limit=1)
    return said[0] if said else None


def _of_memory(hit: Hit) -> HistoryHit:
    memory = hit.memory
    return HistoryHit(
        session_id=session_of(memory) or "",
        project=memory.scope,
        summary=shortened_line(memory.topic or f"{memory.kind.value}: {memory.content}", LONGEST_SUMMARY),
        timestamp=memory.occurred,
        relevance="; ".join(hit.why),
        excerpt=shortened_line(undecorated_line(hit.content), LONGEST_EXCERPT),
        source=MEMORY,
        score=hit.score,
        memory_id=memory.id,
        file=memory.provenance.file,
        line=memory.provenance.line,
    )


MOST_FURTHER = 8  # passages behind the one that was found that may have the answer
MOST_STANDING = 10  # passages that may have the words of a head
MOST_HELD = 40  # conversations that may be of a time
NOTES = ("session-memory", "summary.md")  # beside a transcript


@dataclass(frozen=True, slots=True)
class SearchedConversations:
    """The conversations that are asked: by their rows, and the one that speaks for each session."""

    rows: Mapping[int, IndexedConversation]
    sessions: Mapping[str, IndexedConversation]
    narrowed: bool


def hits_from_index(
    engine: Engine, looked: LookupResult, reach: SearchedConversations, *, how: bool, limit: int
) -> list[HistoryHit]:
    """The best of what the index found; `how`: the question wants to know how it was resolved. Blocks."""
    answers = unlike(one for one in looked.found if one.answers)
    told = (_of_ranked(engine, looked, one, reach, how=how) for one in answers)
    return list(islice((one for one in told if one is not None), limit))


def hits_from_period(engine: Engine, looked: LookupResult, reach: SearchedConversations) -> list[HistoryHit]:
    """What was held in the time that the question asks for, the newest first, of so many that may have been. Blocks."""
    period = looked.asked.period
    if period is None:
        return []
    sessions: dict[str, list[IndexedConversation]] = {}
    for one in reach.rows.values():
        begun = period.end is None or one.started is None or one.started < period.end
        if begun and (period.start is None or last_moment(one) >= period.start):
            sessions.setdefault(one.belongs_to, []).append(one)
    newest = sorted(sessions.values(), key=lambda held: max(map(last_moment, held)), reverse=True)
    told: list[HistoryHit] = []
    for held in newest[:MOST_HELD]:
        held.sort(key=lambda one: bool(one.part_of))
        found = (_of_time(engine, one, reach, period) for one in held)
        told += islice((one for one in found if one is not None), 1)
    return sorted(told, key=lambda one: one.timestamp, reverse=True)


def named_hit(engine: Engine, session: IndexedConversation) -> tuple[str, str]:
    """What it is called everywhere, and what it is summed up as."""
    title = safe_line(engine, session.title.text, LONGEST_TITLE)
    return title, first_safe_line(engine, session.summary.text, session.title.text, longest=LONGEST_SUMMARY)


def hit_at(
    engine: Engine,
    conversation: IndexedConversation,
    reach: SearchedConversations,
    *,
    timestamp: datetime,
    relevance: str,
    excerpt: str,
    score: float,
    line: int | None,
    file: str = "",
) -> HistoryHit:
    """What stands there, with the conversation that it belongs to."""
    session = reach.sessions[conversation.belongs_to]
    title, summary = named_hit(engine, session)
    return HistoryHit(
        session_id=conversation.belongs_to,
        project=worked_in(session),
        summary=summary,
        title=title,
        agent=conversation.source,
        timestamp=timestamp,
        relevance=relevance,
        excerpt=excerpt,
        source=ARCHIVE if conversation.gone else TRANSCRIPT,
        score=score,
        file=file or str(conversation.file),
        line=line,
    )


def _of_ranked(
    engine: Engine, looked: LookupResult, one: RankedSession, reach: SearchedConversations, *, how: bool
) -> HistoryHit | None:
    conversation, wanted = one.best.conversation, looked.asked.lexemes
    statement = _statement(engine, looked, one, how=how)
    if statement is None:
        return None  # nobody said anything in it
    said = statement.said
    excerpt = excerpt_of(engine, _spoken(said), wanted, place=statement.place)
    file, line = (str(conversation.file), said.line) if said.line else _place_of_note(engine, one, wanted)
    similarity = None if math.isnan(one.likeness) else engine.vector_source.similarity(one.likeness)
    return hit_at(
        engine,
        conversation,
        reach,
        timestamp=said.timestamp or last_moment(conversation),
        relevance=relevance(looked.asked, one, similarity),
        excerpt=excerpt,
        score=one.score,
        file=file,
        line=line,
    )


def _statement(
    engine: Engine, looked: LookupResult, one: RankedSession, *, how: bool
) -> AnswerStatement | None:
    """The words that answer; of a head, which stands nowhere in the file, only where nothing else has most of them."""
    wanted, best, row = frozenset(looked.asked.lexemes), one.best, one.best.row
    if best.passage.head:
        standing, most = _standing(engine, one, wanted)
        told = len(wanted.intersection(best.passage.lexemes.split()))
        if standing is None or (4 * most < 3 * told and _says_more(best.conversation)):
            return answer_statement([best.passage.utterances], wanted, how=False)
        row = standing
    present = looked.present
    window = _window(engine.history.passages_from(row, most=1 + MOST_FURTHER), further=how)
    heard = [
        [said for said in passage.utterances if present is None or not present.has(said, best.conversation)]
        for passage in window
    ]
    return answer_statement(heard, wanted, how=how)


def _standing(engine: Engine, one: RankedSession, wanted: frozenset[str]) -> tuple[int | None, int]:
    """The passage of a conversation that has most of the words, and how many; its first, where none has any."""
    index, row = engine.history, one.best.conversation.row
    found = index.passages(
        [match.passage for match in index.search(tuple(wanted), among=[row], limit=MOST_STANDING)]
    )
    counts = {
        number: len(wanted.intersection(passage.lexemes.split()))
        for number, passage in found.items()
        if not passage.head
    }
    if counts:
        best = max(counts, key=lambda number: (counts[number], -number))
        return best, counts[best]
    heard = [other.row for other in one.heard if other.conversation.row == row and not other.passage.head]
    first = heard or [number for number, passage in index.passages_of(row) if not passage.head]
    return (first[0], 0) if first else (None, 0)


def _says_more(one: IndexedConversation) -> bool:
    """Whether its head has words that nobody said in it."""
    return bool(one.note_modified) or one.title.by != "made" or one.summary.by != "made"


def _window(passages: Sequence[Passage], *, further: bool) -> Iterator[Passage]:
    """The first, and what follows it: up to the next prompt, or `further`."""
    for number, passage in enumerate(passages[: 1 + MOST_FURTHER]):
        begins = bool(passage.utterances) and passage.utterances[0].role is Role.USER
        if number and begins and not further:
            return
        yield passage


def _place_of_note(engine: Engine, one: RankedSession, wanted: Sequence[str]) -> tuple[str, int]:
    """Where the words of a head stand: in the notes beside the file, else nowhere, and then its beginning must do."""
    conversation = one.best.conversation
    file = conversation.file.with_suffix("").joinpath(*NOTES)
    lines = engine.transcripts.note(conversation.file).splitlines() if conversation.note_modified else []
    counts = [len(set(wanted).intersection(lexemes(line))) for line in lines]
    if any(counts) and file.is_file():
        return str(file), counts.index(max(counts)) + 1
    return str(conversation.file), 1


def _of_time(
    engine: Engine, one: IndexedConversation, reach: SearchedConversations, period: Timeframe
) -> HistoryHit | None:
    """Told by the last that came of something then, else by the first request."""
    ended = engine.history.last_passage(one.row) if held_in(period, one.ended) else None
    passages = [ended] if ended else [passage for _, passage in engine.history.passages_of(one.row)]
    said = [
        utterance
        for passage in passages
        for utterance in passage.utterances
        if not passage.head and held_in(period, utterance.timestamp or one.ended or last_moment(one))
    ]
    if not said:
        return None
    chosen = next((each for each in reversed(said) if concludes(each)), None)
    chosen = chosen or next((each for each in said if each.role is Role.USER), said[0])
    return hit_at(
        engine,
        one,
        reach,
        timestamp=max((each.timestamp for each in said if each.timestamp), default=last_moment(one)),
        relevance=f"time: {period.phrase}",
        excerpt=excerpt_of(engine, _spoken(chosen), ()),
        score=1.0,
        line=max(chosen.line, 1),
    )


def _spoken(said: IndexedStep) -> str:
    """A command or an output is told with the tool that it is of."""
    return f"{said.tool}: {said.text}" if said.tool else said.text
