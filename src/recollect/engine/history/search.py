"""Past conversations that answer a question: those of this machine, and what the store remembers of others."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from recollect.engine.beside import beside
from recollect.engine.core import Engine
from recollect.engine.history.deep import read_by_model
from recollect.engine.history.excerpt import LONGEST_SUMMARY, excerpt_of, shown, telling
from recollect.engine.history.finding import Candidate as Candidate  # who reads looks for them here
from recollect.engine.history.finding import Looked, look, narrowed_to
from recollect.engine.history.finding import candidates as candidates
from recollect.engine.history.known import (
    Known,
    by_session,
    chosen_place,
    known_conversations,
    last_moment,
    told,
    unknown_project,
)
from recollect.engine.history.places import EVERYWHERE, Place, worked_in
from recollect.engine.history.ranking import Ranked, relevance, unlike
from recollect.engine.history.reading import Finding, Reading
from recollect.engine.history.remembered import TRANSCRIPT, Found, completed, remembered
from recollect.engine.history.rlm import read_by_rlm
from recollect.model.errors import InvalidInput, RlmError
from recollect.ports.history import Conversation, HistoryIndex, Utterance

INDEX = "index"
MOST_READ = 20  # sessions that a model may choose from
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found, in how many conversations, by whom, and what to try when that was little.

    Who was to read them and couldn't is told by `error` and `message`, with what he had found until then.
    """

    results: tuple[Found, ...]
    sessions: int
    suggestion: str | None = None
    searched_with: str = INDEX
    error: str | None = None
    message: str | None = None
    resolution: str | None = None
    partial: tuple[Found, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Reach:
    """The conversations that are asked: by their rows, and the one that speaks for each session."""

    rows: Mapping[int, Conversation]
    sessions: Mapping[str, Conversation]
    narrowed: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """Who read, and what went wrong with it, with what had been found until then."""

    reading: Reading | None = None
    error: RlmError | None = None
    notice: str = ""
    partial: tuple[Finding, ...] = ()


async def search_history(
    engine: Engine,
    query: str,
    *,
    agent: str,
    project: str | None = None,
    limit: int = 5,
    besides: str | None = None,
) -> Searched:
    """The conversations but `besides` that answer, best first, each once. Raises InvalidInput, the store's errors."""
    if not query.strip():
        raise InvalidInput("There is nothing to look for.", advice="Give a question.")
    known = await known_conversations(engine, unread=False)
    place = await chosen_place(engine, project, known.conversations)
    if place is None:
        known = await known_conversations(engine, unread=True)  # it may be there without having been read
        place = await chosen_place(engine, project, known.every)
    if place is None:
        return Searched((), 0, told(engine, unknown_project(project)))
    reach = _reach(known, place, besides)
    async with beside(remembered(engine, query, place, agent=agent, limit=limit)) as remembering:
        looked = await look(engine, query, reached=reach.rows, narrowed=reach.narrowed)
        read = await _read(engine, query, looked)
        said = await asyncio.to_thread(_said, engine, looked, read.reading, reach, limit)
    others = [one for one in remembering.result() if one.session_id != besides]
    best = _merged(said, others)[:limit]
    results = tuple(await completed(engine, best, wanted=frozenset(looked.asked.lexemes), agent=agent))
    return Searched(
        results,
        sessions=len(reach.sessions.keys() | {one.session_id for one in others}),
        suggestion=told(engine, None if results else _advice(engine, looked, known, project)),
        searched_with=read.reading.by if read.reading else INDEX,
        error=read.error.code if read.error else None,
        message=str(read.error) if read.error else read.notice or None,
        resolution=read.error.advice or None if read.error else None,
        partial=tuple(_of_finding(engine, one, reach) for one in read.partial) or None,
    )


def _reach(known: Known, place: Place, besides: str | None) -> _Reach:
    """A session's sub-agents are where it is."""
    rows: dict[int, Conversation] = {}
    sessions: dict[str, Conversation] = {}
    for session, held in by_session(known.conversations).items():
        if session != besides and place.has(held[0]):
            sessions[session] = held[0]
            rows.update((one.row, one) for one in held)
    return _Reach(rows, sessions, narrowed=place != EVERYWHERE or len(rows) < len(known.conversations))


async def _read(engine: Engine, query: str, looked: Looked) -> _Read:
    """By whom is configured to read, where there is something to be read. Who fails at all of it leaves it to the next."""
    chosen = narrowed_to(looked, MOST_READ)
    if not chosen:
        return _Read()
    error: RlmError | None = None
    if engine.rlm is not None:
        reading = await read_by_rlm(engine, query, chosen)
        if not reading.failed:
            return _Read(reading, reading.error, reading.notice, reading.results if reading.error else ())
        error = reading.error
    if engine.llm is not None and engine.policy.history.by_model:
        reading = await read_by_model(engine, query, chosen)
        return _Read(None if reading.failed else reading, error, reading.notice)
    return _Read(error=error)


def _said(engine: Engine, looked: Looked, reading: Reading | None, reach: _Reach, limit: int) -> list[Found]:
    """What this machine's conversations say; where a reader came to an end before his time, the index's best follow. Blocks."""
    if reading is None:
        return _of_index(engine, looked, reach, limit)
    read = [_of_finding(engine, one, reach) for one in reading.results]
    if not reading.error and not reading.notice:
        return read
    known = {one.session_id for one in read}
    further = [one for one in _of_index(engine, looked, reach, limit) if one.session_id not in known]
    least = min((one.score for one in read), default=1.0)
    return [*read, *(replace(one, score=min(one.score, least)) for one in further)]


def _of_index(engine: Engine, looked: Looked, reach: _Reach, limit: int) -> list[Found]:
    answering = unlike(one for one in looked.found if one.answers)
    return [_of_ranked(engine, looked, one, reach) for one in islice(answering, limit)]


def _of_ranked(engine: Engine, looked: Looked, one: Ranked, reach: _Reach) -> Found:
    heard, session = one.best, reach.sessions[one.session_id]
    said = telling(_utterances(engine.history, one), looked.asked.lexemes)
    similarity = None if math.isnan(one.likeness) else engine.meaning.similarity(one.likeness)
    return Found(
        session_id=one.session_id,
        project=worked_in(session),
        summary=_summary(engine, session),
        timestamp=said.timestamp or last_moment(heard.conversation),
        relevance=relevance(looked.asked, one, similarity),
        excerpt=excerpt_of(engine, _spoken(said), looked.asked.lexemes),
        source=TRANSCRIPT,
        score=one.score,
        file=str(heard.conversation.file),
        line=max(said.line, 1),
    )


def _utterances(index: HistoryIndex, one: Ranked) -> tuple[Utterance, ...]:
    """Of the best passage. A head stands nowhere in the file: what else answers, or how it began, does."""
    best, row = one.best, one.best.conversation.row
    if not best.passage.head:
        return best.passage.utterances
    others = (other.passage for other in one.heard if other.conversation.row == row)
    standing = [*others, *(passage for _, passage in index.passages_of(row))]
    first = next((passage for passage in standing if not passage.head and passage.utterances), best.passage)
    return first.utterances


def _spoken(said: Utterance) -> str:
    """A command or an output is told with the tool that it is of."""
    return f"{said.tool}: {said.text}" if said.tool else said.text


def _of_finding(engine: Engine, one: Finding, reach: _Reach) -> Found:
    conversation = reach.rows[one.row]
    session = reach.sessions[conversation.belongs_to]
    return Found(
        session_id=conversation.belongs_to,
        project=worked_in(session),
        summary=_summary(engine, session),
        timestamp=last_moment(conversation),
        relevance=f"{one.relevance:.2f}: {one.why}" if one.why else f"{one.relevance:.2f}",
        excerpt=excerpt_of(engine, one.excerpt, ()),
        source=TRANSCRIPT,
        score=one.relevance,
        file=str(conversation.file),
        line=one.line,
    )


def _summary(engine: Engine, session: Conversation) -> str:
    return shown(engine, session.summary.text or session.title.text, LONGEST_SUMMARY)


def _merged(said: Sequence[Found], others: Sequence[Found]) -> list[Found]:
    """Each conversation once, best first; what was said in it before what was remembered of it."""
    found = {one.session_id: one for one in said}
    for one in others:
        found.setdefault(one.session_id, one)
    return sorted(found.values(), key=lambda one: -one.score)


def _advice(engine: Engine, looked: Looked, known: Known, project: str | None) -> str:
    """What to try when nothing was found."""
    wider = ", or leave the project out" if project is not None else ""
    advice = [f"Nothing was found. Use fewer or broader words{wider}."]
    if looked.asked.period is not None:
        advice.append("memory_timeline tells what there is of that time.")
    if known.left:
        read = f"{max(1, known.left // MEGABYTE)} MB of conversations are not read yet"
        advice.append(f"{read}: `recollect history index` reads them.")
    if not engine.policy.history.archive:
        advice.append(
            "What Claude Code deleted is kept where `recollect config set history.archive true` was run."
        )
    return " ".join(advice)
