"""Search hits of past conversations: their titles, the words that answer, and the memories that belong to them."""

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
from mindhold.history.projects import ProjectSelection, by_session, last_moment, worked_in
from mindhold.history.ranking import LookupResult, RankedSession, held_in, relevance, unlike
from mindhold.memories.ranking import at_least
from mindhold.memories.recall import Hit, RecallInput, recall
from mindhold.memories.reflect import REFLECTION
from mindhold.model.lexemes import lexemes
from mindhold.model.query import Filter, Order
from mindhold.model.relevance import DOUBT
from mindhold.ports.history import IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role
from mindhold.text.failure_resolution import says_how_resolved
from mindhold.text.pattern import LazyPattern
from mindhold.text.timeframe import Timeframe

LONGEST_LOOK = 40_000  # characters of one utterance that are searched
SPEECH = 1.5  # factor of a word that a person or the assistant said, against one in a tool's input or output
INHERITED = 0.5  # worth of a prompt's word for the answer to it
CONCLUDED, RESOLVED = 3.0, 5.0  # bonus for stating a result; for stating how, if the question asks that
TALK = 0.7  # factor for text that only announces the next step
FURTHER = 0.15  # cost of each later passage
LEAST_LETTERS = 25  # of a statement: "Done." says nothing
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
    """An utterance, and the offset of the sentence that answers how; otherwise `place` is 0."""

    said: IndexedStep
    place: int = 0


def asks_how(query: str) -> bool:
    """Whether the query asks how something was resolved, or what caused it."""
    return _HOW.search(query) is not None


def answer_statement(
    passages: Sequence[Sequence[IndexedStep]], wanted: Collection[str], *, how: bool
) -> AnswerStatement | None:
    """Choose the utterance that answers from passages in order, the hit first; None if nothing was said.

    The assistant's statement of a result goes before the prompt that asked for it, unless it shares no word
    with the question and the question isn't `how`. Speech goes before tool calls, earlier before later.
    """
    best: tuple[float, AnswerStatement] | None = None
    wanted_lexemes = frozenset(wanted)
    prompt: frozenset[str] = frozenset()
    for number, passage in enumerate(passages):
        for step in passage:
            if number and step.role not in (Role.USER, Role.CLAUDE):
                continue  # in later passages only speech answers
            own = wanted_lexemes.intersection(lexemes(step.text[:LONGEST_LOOK]))
            prompt = own if step.role is Role.USER else prompt
            place, worth = _concluding(step, how=how)
            if worth and not own and not how:
                place, worth = 0, 0.0
            inherited = INHERITED * len(prompt - own) if worth else 0.0
            value = (1 + len(own) + inherited) * _speech(step) + worth - FURTHER * number
            if best is None or value > best[0]:
                best = value, AnswerStatement(step, place if how else 0)
    return best[1] if best else None


def concludes(one: IndexedStep) -> bool:
    """Whether the assistant states a result in this step."""
    return _concluding(one, how=False)[1] > 0


def _speech(one: IndexedStep) -> float:
    if one.role is Role.CLAUDE:
        announces = len(one.text) < 10 * LEAST_LETTERS and _TALK.match(one.text) is not None
        return SPEECH * TALK if announces else SPEECH
    return SPEECH if one.role is Role.USER else 1.0


def _concluding(one: IndexedStep, *, how: bool) -> tuple[int, float]:
    """The offset of the sentence that states a result, and its worth."""
    if one.role is not Role.CLAUDE or len(one.text) < LEAST_LETTERS:
        return 0, 0.0
    text = one.text[:LONGEST_LOOK]
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
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
    if concluded is None or announces:  # it ends with the next step
        return 0, 0.0
    return concluded, CONCLUDED


TRANSCRIPT, ARCHIVE, MEMORY = "transcript", "archive", "memory"
MOST_JOINED = 3
LOOKED_AT = 30  # memories of a conversation that are considered
LONGEST_JOINED = 200


@dataclass(frozen=True, slots=True)
class JoinedMemory:
    """A memory that came from a conversation, shortened."""

    id: str
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class HistoryHit:
    """A past conversation that answers, the place in it, and the memories that came from it."""

    session_id: str  # empty: a memory of no conversation
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    source: str
    score: float
    title: str = ""
    agent: str = ""  # the program: claude, codex, gemini, cursor
    file: str | None = None
    line: int | None = None
    memory_id: str | None = None  # set if a memory led to the hit
    memories: tuple[JoinedMemory, ...] = ()


async def hits_from_memories(
    engine: Engine, query: str, place: ProjectSelection, *, agent: str, limit: int, but: Collection[str] = ()
) -> list[HistoryHit]:
    """Hits from memories, one per conversation, best first; sessions in `but` are left out."""
    if not place.remembers:
        return []
    request = RecallInput(
        query=query,
        scope=place.scope,
        everywhere=place.scope is None,
        scope_only=True,
        minimum_score=at_least(engine, DOUBT),
        limit=4 * limit,
    )
    recalled = await recall(engine, request, agent=agent)
    hits_by_session: dict[str, HistoryHit] = {}
    for hit in recalled.hits:
        history_hit = _of_memory(hit)
        if not history_hit.session_id or history_hit.session_id not in but:
            hits_by_session.setdefault(history_hit.session_id or hit.memory.id, history_hit)
    return list(hits_by_session.values())


async def hits_with_memories(
    engine: Engine, found: Sequence[HistoryHit], *, wanted: Collection[str], agent: str
) -> list[HistoryHit]:
    """Add to each hit the memories that came from its conversation, those with most of the wanted lexemes first."""
    return list(await asyncio.gather(*(_completed(engine, hit, wanted, agent=agent) for hit in found)))


async def _completed(engine: Engine, found: HistoryHit, wanted: Collection[str], *, agent: str) -> HistoryHit:
    """Add the memories to one hit. A conversation without a transcript gets the reflection on it as its summary."""
    if not found.session_id:
        return found
    where = Filter(viewer=agent, conversation=found.session_id, minimum_trust=LEAST_TRUST)
    memories = await engine.store.find(where, order=Order.NEWEST, limit=LOOKED_AT)
    if found.source == MEMORY:
        reflection = next((one for one in memories if REFLECTION in one.tags), None)
        if reflection is None and len(memories) == LOOKED_AT:
            tagged = replace(where, tags=(REFLECTION,))
            reflection = next(iter(await engine.store.find(tagged, order=Order.NEWEST, limit=1)), None)
        if reflection:
            found = replace(found, summary=shortened_line(reflection.content, LONGEST_SUMMARY))
    facts = [one for one in memories if not is_message(one) and REFLECTION not in one.tags]
    others = [one for one in facts if one.id != found.memory_id]
    others.sort(key=lambda one: (-len(set(wanted).intersection(lexemes(one.content))), -one.importance))
    joined = (
        JoinedMemory(one.id, one.kind.value, shortened_line(one.content, LONGEST_JOINED))
        for one in others[:MOST_JOINED]
    )
    return replace(found, memories=tuple(joined))


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


MOST_FURTHER = 8  # passages after the hit that may hold the answer
MOST_STANDING = 10  # passages that may hold the words of a head
MOST_HELD = 40  # conversations that are tried for a period
NOTES = ("session-memory", "summary.md")  # path of the notes next to a transcript


@dataclass(frozen=True, slots=True)
class SearchedConversations:
    """The conversations to search by row, and the main conversation of each session."""

    rows: Mapping[int, IndexedConversation]
    sessions: Mapping[str, IndexedConversation]
    narrowed: bool


def hits_from_index(
    engine: Engine,
    looked: LookupResult,
    reach: SearchedConversations,
    *,
    how: bool,
    limit: int,
    answering: bool = True,
) -> list[HistoryHit]:
    """The best hits of an index lookup. `how`: the question asks how something was resolved. Blocks.

    Unless `answering`, the nearest of the sessions that don't answer.
    """
    sessions = unlike(session for session in looked.found if session.answers is answering)
    hits = (_of_ranked(engine, looked, session, reach, how=how) for session in sessions)
    return list(islice((session for session in hits if session is not None), limit))


def hits_from_period(engine: Engine, looked: LookupResult, reach: SearchedConversations) -> list[HistoryHit]:
    """Conversations held in the question's period, newest first, from at most MOST_HELD sessions. Blocks."""
    period = looked.asked.period
    if period is None:
        return []
    sessions = by_session(
        one
        for one in reach.rows.values()
        if (period.end is None or one.started is None or one.started < period.end)
        and (period.start is None or last_moment(one) >= period.start)
    )
    newest = sorted(sessions.values(), key=lambda held: max(map(last_moment, held)), reverse=True)
    hits: list[HistoryHit] = []
    for held in newest[:MOST_HELD]:
        session_hits = (_of_time(engine, one, reach, period) for one in held)
        hits += islice((one for one in session_hits if one is not None), 1)
    return sorted(hits, key=lambda one: one.timestamp, reverse=True)


def named_hit(engine: Engine, session: IndexedConversation) -> tuple[str, str]:
    """The title and the summary of a conversation, safe to show."""
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
    """Build a hit at one place of a conversation."""
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
    conversation, question_lexemes = one.best.conversation, looked.asked.lexemes
    statement = _statement(engine, looked, one, how=how)
    if statement is None:
        return None  # nothing was said in it
    step = statement.said
    excerpt = excerpt_of(engine, _spoken(step), question_lexemes, place=statement.place)
    file, line = (
        (str(conversation.file), step.line) if step.line else _place_of_note(engine, one, question_lexemes)
    )
    similarity = None if math.isnan(one.likeness) else engine.vector_source.similarity(one.likeness)
    return hit_at(
        engine,
        conversation,
        reach,
        timestamp=step.timestamp or last_moment(conversation),
        relevance=relevance(looked.asked, one, similarity),
        excerpt=excerpt,
        score=one.score,
        file=file,
        line=line,
    )


def _statement(
    engine: Engine, looked: LookupResult, one: RankedSession, *, how: bool
) -> AnswerStatement | None:
    """The utterance that answers.

    A head isn't part of the transcript, so it is used only if no passage has most of its words.
    """
    question_lexemes, best, row = frozenset(looked.asked.lexemes), one.best, one.best.row
    if best.passage.head:
        standing, in_passage = _standing(engine, one, question_lexemes)
        in_head = len(question_lexemes.intersection(best.passage.lexemes.split()))
        if standing is None or (4 * in_passage < 3 * in_head and _says_more(best.conversation)):
            return answer_statement([best.passage.utterances], question_lexemes, how=False)
        row = standing
    present = looked.present
    window = _window(engine.history.passages_from(row, most=1 + MOST_FURTHER), further=how)
    utterances = [
        [step for step in passage.utterances if present is None or not present.has(step, best.conversation)]
        for passage in window
    ]
    return answer_statement(utterances, question_lexemes, how=how)


def _standing(engine: Engine, one: RankedSession, wanted: frozenset[str]) -> tuple[int | None, int]:
    """The passage of the conversation with most of the words, and how many; its first passage if none has any."""
    index, row = engine.history, one.best.conversation.row
    passages = index.passages(
        [match.passage for match in index.search(tuple(wanted), among=[row], limit=MOST_STANDING)]
    )
    counts = {
        number: len(wanted.intersection(passage.lexemes.split()))
        for number, passage in passages.items()
        if not passage.head
    }
    if counts:
        best = max(counts, key=lambda number: (counts[number], -number))
        return best, counts[best]
    rows = [other.row for other in one.heard if other.conversation.row == row and not other.passage.head]
    first = rows or [number for number, passage in index.passages_of(row) if not passage.head]
    return (first[0], 0) if first else (None, 0)


def _says_more(one: IndexedConversation) -> bool:
    """Whether the head has words that nobody said in the conversation."""
    return bool(one.note_modified) or one.title.by != "made" or one.summary.by != "made"


def _window(passages: Sequence[Passage], *, further: bool) -> Iterator[Passage]:
    """The first passage and those that follow, up to the next prompt unless `further`."""
    for number, passage in enumerate(passages[: 1 + MOST_FURTHER]):
        begins = bool(passage.utterances) and passage.utterances[0].role is Role.USER
        if number and begins and not further:
            return
        yield passage


def _place_of_note(engine: Engine, one: RankedSession, wanted: Sequence[str]) -> tuple[str, int]:
    """The file and line of a head's words: in the notes next to the transcript, else the transcript's first line."""
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
    """A hit for a conversation in a period: its last statement of a result then, else the first request."""
    ended = engine.history.last_passage(one.row) if held_in(period, one.ended) else None
    passages = [ended] if ended else [passage for _, passage in engine.history.passages_of(one.row)]
    steps = [
        utterance
        for passage in passages
        for utterance in passage.utterances
        if not passage.head and held_in(period, utterance.timestamp or one.ended or last_moment(one))
    ]
    if not steps:
        return None
    shown = next((step for step in reversed(steps) if concludes(step)), None)
    shown = shown or next((step for step in steps if step.role is Role.USER), steps[0])
    return hit_at(
        engine,
        one,
        reach,
        timestamp=max((step.timestamp for step in steps if step.timestamp), default=last_moment(one)),
        relevance=f"time: {period.phrase}",
        excerpt=excerpt_of(engine, _spoken(shown), ()),
        score=1.0,
        line=max(shown.line, 1),
    )


def _spoken(said: IndexedStep) -> str:
    """The text of a step, with the name of its tool if it has one."""
    return f"{said.tool}: {said.text}" if said.tool else said.text
