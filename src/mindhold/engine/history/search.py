"""Past conversations that answer a question: those of this machine, and what the store remembers of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindhold.engine.beside import beside
from mindhold.engine.core import Engine
from mindhold.engine.history.answering import asks_how
from mindhold.engine.history.deep import MOST_SECONDS, read_by_model
from mindhold.engine.history.excerpt import excerpt_of
from mindhold.engine.history.finding import Candidate as Candidate  # who reads looks for them here
from mindhold.engine.history.finding import Looked, look, narrowed_to
from mindhold.engine.history.finding import candidates as candidates
from mindhold.engine.history.known import (
    TIMELINE,
    Known,
    by_session,
    chosen_place,
    known_conversations,
    last_moment,
    told,
    unknown_project,
    unread_count,
)
from mindhold.engine.history.places import EVERYWHERE, Place, worked_in
from mindhold.engine.history.ranking import held_in
from mindhold.engine.history.reading import Finding, Reading
from mindhold.engine.history.recounting import Reach, found_in, named, of_index, of_period
from mindhold.engine.history.remembered import Found, completed, remembered
from mindhold.engine.history.rlm import read_by_rlm
from mindhold.engine.question import Question, check
from mindhold.model.errors import InvalidInput, RlmError
from mindhold.ports.history import Conversation

INDEX = "index"
MOST_READ = 20  # sessions that a model may choose from
LEAST_SECONDS = 5.0  # for a model to read something
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
class _Read:
    """Who read, and what went wrong with it, with what had been found until then."""

    reading: Reading | None = None
    error: RlmError | None = None
    notices: tuple[str, ...] = ()

    @property
    def partial(self) -> tuple[Finding, ...]:
        return self.reading.results if self.reading and self.error else ()


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
    check(Question(text=query))  # before it is sent to anybody
    known = await known_conversations(engine, unread=False)
    place = await chosen_place(engine, project, known.conversations)
    if place is None:
        known = await known_conversations(engine, unread=True)  # it may be there without having been read
        place = await chosen_place(engine, project, known.every)
    if place is None:
        return Searched((), 0, told(engine, unknown_project(project)))
    reach = _reach(known, place, besides)
    but = known.left_out | ({besides} if besides else set())
    async with beside(remembered(engine, query, place, agent=agent, limit=limit, but=but)) as remembering:
        looked = await look(
            engine, query, reached=reach.rows, narrowed=reach.narrowed, conversing=besides is not None
        )
        read = await _read(engine, query, looked)
        how = asks_how(query)
        said = await asyncio.to_thread(_said, engine, looked, read.reading, reach, how=how, limit=limit)
    others = [_placed(engine, one, reach) for one in _timely(looked, remembering.result())]
    held = len(said) if looked.asked.only_time else 0
    best = _merged(said, others)[:limit]
    results = tuple(await completed(engine, best, wanted=frozenset(looked.asked.lexemes), agent=agent))
    return Searched(
        results,
        sessions=len(reach.sessions.keys() | {one.session_id for one in others if one.session_id}),
        suggestion=told(
            engine,
            await _suggestion(engine, looked, known, project=project, found=len(results), held=held),
        ),
        searched_with=_by_whom(read.reading, said),
        error=read.error.code if read.error else None,
        message=" ".join((*((read.error.message,) if read.error else ()), *read.notices)) or None,
        resolution=read.error.advice or None if read.error else None,
        partial=tuple(_of_finding(engine, looked, one, reach, read.reading) for one in read.partial) or None,
    )


def _reach(known: Known, place: Place, besides: str | None) -> Reach:
    """A session's sub-agents are where it is."""
    rows: dict[int, Conversation] = {}
    sessions: dict[str, Conversation] = {}
    for session, held in by_session(known.conversations).items():
        if session != besides and place.has(held[0]):
            sessions[session] = held[0]
            rows.update((one.row, one) for one in held)
    return Reach(rows, sessions, narrowed=place != EVERYWHERE or len(rows) < len(known.conversations))


async def _read(engine: Engine, query: str, looked: Looked) -> _Read:
    """By whom is configured to read, where there is something to be read. Who fails at all of it leaves it to the next, as far as
    there is time."""
    policy = engine.policy
    chosen = narrowed_to(looked, max(MOST_READ, policy.rlm.most_conversations))
    if not chosen or not policy.history.by_model:
        return _Read()
    error: RlmError | None = None
    notices: tuple[str, ...] = ()
    seconds = MOST_SECONDS
    if engine.rlm is not None:
        began = time.monotonic()
        reading = await read_by_rlm(engine, query, chosen)
        if not reading.failed:
            return _Read(reading, reading.error, _notices(reading))
        error, notices = reading.error, _notices(reading)
        seconds = min(seconds, policy.rlm.seconds - (time.monotonic() - began))
    if engine.llm is None or seconds < LEAST_SECONDS:
        return _Read(None, error, notices)
    reading = await read_by_model(engine, query, chosen[:MOST_READ], seconds=seconds)
    return _Read(None if reading.failed else reading, error, (*notices, *_notices(reading)))


def _timely(looked: Looked, others: Sequence[Found]) -> list[Found]:
    """Only those of the time, where nothing else was asked for."""
    period = looked.asked.period if looked.asked.only_time else None
    return [one for one in others if period is None or held_in(period, one.timestamp)]


def _placed(engine: Engine, one: Found, reach: Reach) -> Found:
    """With the name of the conversation that the memory is of, where that is known."""
    session = reach.sessions.get(one.session_id)
    if session is None:
        return one
    title, summary = named(engine, session)
    return replace(
        one, title=title, summary=summary or one.summary, project=worked_in(session), agent=session.source
    )


def _notices(reading: Reading) -> tuple[str, ...]:
    none = ""
    if not reading.results and not reading.failed:
        none = f"{reading.by} found nothing relevant in what it read; these are the index's."
    return tuple(one for one in (reading.notice, none, reading.unread) if one)


def _by_whom(reading: Reading | None, said: Sequence[Found]) -> str:
    if reading is None:
        return INDEX
    return f"{reading.by}+{INDEX}" if len(said) > len(reading.results) else reading.by


def _said(
    engine: Engine, looked: Looked, reading: Reading | None, reach: Reach, *, how: bool, limit: int
) -> list[Found]:
    """What this machine's conversations say: what a reader chose, and the index's best behind it; all of a time, where that was
    asked for. Blocks."""
    if looked.asked.only_time:
        return of_period(engine, looked, reach)
    if reading is None:
        return of_index(engine, looked, reach, how=how, limit=limit)
    read = [_of_finding(engine, looked, one, reach, reading) for one in reading.results[:limit]]
    known = {one.session_id for one in read}
    further = [
        one for one in of_index(engine, looked, reach, how=how, limit=limit) if one.session_id not in known
    ]
    least = min((one.score for one in read), default=1.0)
    return [*read, *(replace(one, score=min(one.score, least)) for one in further)][:limit]


def _of_finding(engine: Engine, looked: Looked, one: Finding, reach: Reach, reading: Reading | None) -> Found:
    conversation = reach.rows[one.row]
    by = f"relevance {one.relevance:.2f} by {reading.by if reading else INDEX}"
    return found_in(
        engine,
        conversation,
        reach,
        timestamp=one.timestamp or last_moment(conversation),
        relevance=f'{by}, which says: "{one.why}"' if one.why else by,
        excerpt=excerpt_of(engine, one.excerpt, looked.asked.lexemes),
        score=one.relevance,
        line=one.line,
    )


def _merged(said: Sequence[Found], others: Sequence[Found]) -> list[Found]:
    """Each conversation once: what was said, best first, before what was only remembered, of a conversation before of none."""
    known = {one.session_id for one in said}
    rest = [one for one in others if one.session_id not in known]
    return [*said, *sorted(rest, key=lambda one: (not one.session_id, -one.score))]


async def _suggestion(
    engine: Engine, looked: Looked, known: Known, *, project: str | None, found: int, held: int
) -> str | None:
    """What wasn't read yet, what else there is of a time; what to try when nothing was found."""
    advice = []
    if not found and looked.asked.only_time:
        advice.append("No conversation was held then, as far as is known.")
    elif not found and not (known.every or known.left or engine.history.withheld):
        advice.append("No conversation is known on this machine.")
    elif not found:
        wider = ", or leave the project out" if project is not None else ""
        advice.append(f"Use fewer or broader words{wider}.")
    if looked.asked.period is not None and (not found or held > found):
        much = f"{held} conversations are of that time; " if held > found else ""
        advice.append(f"{much}{TIMELINE} lists what there is.")
    if known.left:
        unread = await unread_count(engine)
        count = f"{unread} conversation{'s' if unread > 1 else ''} " if unread else "Conversations "
        size = f"({max(1, known.left // MEGABYTE)} MB) {'is' if unread == 1 else 'are'} not read yet"
        advice.append(f"{count}{size}: that goes on in the background, and by `mindhold history index`.")
    if not found and not engine.policy.history.archive:
        advice.append("What Claude Code deleted is kept where `mindhold history archive` was agreed to.")
    return " ".join(advice) or None
