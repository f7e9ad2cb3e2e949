"""Past conversations: the transcripts that this machine keeps, and what the store remembers of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from recollect.engine.checks import safe_text
from recollect.engine.core import Engine
from recollect.engine.draft import QUARANTINE_FROM
from recollect.engine.history_places import Place, place_of
from recollect.engine.history_ranking import Scored, WordSearch
from recollect.engine.messages import is_message, role_of, session_of
from recollect.engine.recall import Hit, Question, recall
from recollect.engine.text.noise import is_noise
from recollect.engine.text.suspicion import suspicion
from recollect.model.errors import InvalidInput
from recollect.model.memory import Kind, Memory
from recollect.model.query import Filter
from recollect.ports.transcripts import Transcript, TranscriptFile, TranscriptProject, Turn

MOST_BYTES = 64 << 20  # of transcripts that one call reads
JUST_NOW = timedelta(minutes=5)  # what was said since is the present, often the very question
MOST_MEMORIES = 2_000  # that a timeline looks at
LONGEST_EXCERPT = 400
LONGEST_SUMMARY = 300
LONGEST_TITLE = 100
AROUND = 4_000  # characters around an excerpt that are looked at for secrets
WITHHELD = "[withheld: it reads like instructions to its reader]"
TRANSCRIPT, MEMORY = "transcript", "memory"


@dataclass(frozen=True, slots=True)
class Found:
    """A past conversation that answers, and where in it."""

    session_id: str
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    source: str
    score: float
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One past conversation."""

    session_id: str
    project: str
    title: str
    summary: str
    timestamp: datetime
    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found, in how many conversations, and what to try when that was little."""

    results: tuple[Found, ...]
    sessions: int
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """The conversations of some days."""

    conversations: tuple[Conversation, ...]
    since: datetime
    until: datetime
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A transcript with a turn that may answer."""

    project: TranscriptProject
    transcript: Transcript
    modified: datetime


async def history_projects(engine: Engine) -> list[TranscriptProject]:
    """The folders that there are transcripts of, the one used last first."""
    return await asyncio.to_thread(engine.transcripts.projects)


async def search_history(
    engine: Engine,
    query: str,
    *,
    agent: str,
    project: str | None = None,
    limit: int = 5,
    besides: str | None = None,
) -> Searched:
    """The conversations but `besides` that answer, best first, each once. Raises InvalidInput."""
    if not query.strip():
        raise InvalidInput("There is nothing to look for.", advice="Give a question.")
    projects = await history_projects(engine)
    place = await _place(engine, project, projects)
    if place is None:
        return Searched((), 0, _unknown(project))
    chosen = _chosen(place, projects)
    words = WordSearch(query)
    candidates, left = await asyncio.to_thread(_read_all, engine, chosen, words)
    told = [
        _from_transcript(engine, one, scored, words)
        for one, scored in _best(candidates, words.scores(), limit)
    ]
    remembered, others = await _remembered(engine, query, place, agent=agent, limit=limit)
    results: dict[str, Found] = {}
    for found in sorted([*told, *remembered], key=lambda found: -found.score):
        results.setdefault(found.session_id, found)
    best = tuple(found for session, found in results.items() if session != besides)[:limit]
    return Searched(best, len(candidates) + others, _suggestion(best, project, left))


async def history_timeline(
    engine: Engine, *, agent: str, days: int = 7, project: str | None = None
) -> Passed:
    """The conversations of the last days, the newest first. Raises InvalidInput."""
    until = engine.clock()
    since = until - timedelta(days=days)
    projects = await history_projects(engine)
    place = await _place(engine, project, projects)
    if place is None:
        return Passed((), since, until, _unknown(project))
    chosen = _chosen(place, projects)
    told = await asyncio.to_thread(_told_since, engine, chosen, since)
    known = {one.session_id: one for one in await _conversations(engine, place, since, agent=agent)}
    known.update({one.session_id: one for one in told})
    ordered = sorted(known.values(), key=lambda one: (one.timestamp, one.session_id), reverse=True)
    nothing = (
        None if ordered else "No conversation in that time. Ask for more days, or leave the project out."
    )
    return Passed(tuple(ordered), since, until, nothing)


async def _place(engine: Engine, project: str | None, projects: Sequence[TranscriptProject]) -> Place | None:
    if project is None:
        return Place()
    return place_of(project, projects, await engine.store.scopes(), home=str(Path.home()))


def _chosen(place: Place, projects: list[TranscriptProject]) -> list[TranscriptProject]:
    if place == Place():
        return projects
    return [place.project] if place.project else []


def _read_all(
    engine: Engine, projects: Sequence[TranscriptProject], words: WordSearch
) -> tuple[list[_Candidate], int]:
    """Every transcript, newest first, as far as the limit allows; and how many were left out. Blocks."""
    candidates: list[_Candidate] = []
    now = engine.clock()
    room, left = MOST_BYTES, 0
    for project, file in _files(projects):
        transcript = engine.transcripts.read(file, most_bytes=room) if room > 0 else None
        if transcript is None:
            left += room <= 0
            continue
        room -= transcript.bytes_read
        words.take([turn.text if _is_past(turn, now) else "" for turn in transcript.turns])
        candidates.append(_Candidate(project, transcript, file.modified))
    return candidates, left


def _is_past(turn: Turn, now: datetime) -> bool:
    return turn.timestamp is None or turn.timestamp < now - JUST_NOW


def _files(projects: Sequence[TranscriptProject]) -> Iterator[tuple[TranscriptProject, TranscriptFile]]:
    pairs = [(project, file) for project in projects for file in project.files]
    return iter(sorted(pairs, key=lambda pair: pair[1].modified, reverse=True))


def _best(
    candidates: Sequence[_Candidate], scores: Sequence[Scored | None], limit: int
) -> list[tuple[_Candidate, Scored]]:
    answering = [(one, scored) for one, scored in zip(candidates, scores, strict=True) if scored]
    return sorted(answering, key=lambda pair: -pair[1].score)[:limit]


def _from_transcript(engine: Engine, one: _Candidate, scored: Scored, words: WordSearch) -> Found:
    transcript = one.transcript
    turn = transcript.turns[scored.place]
    around = words.excerpt(turn.text, length=AROUND)
    return Found(
        session_id=transcript.session_id,
        project=one.project.path,
        summary=_summary(engine, transcript),
        timestamp=turn.timestamp or transcript.ended or one.modified,
        relevance=words.relevance(scored),
        excerpt=words.excerpt(_shown(engine, around), length=LONGEST_EXCERPT),
        source=TRANSCRIPT,
        score=scored.score,
        file=str(transcript.file),
        line=turn.line,
    )


async def _remembered(
    engine: Engine, query: str, place: Place, *, agent: str, limit: int
) -> tuple[list[Found], int]:
    """What the store remembers, and in how many conversations it looked."""
    if place.project is not None and place.scope is None:
        return [], 0
    question = Question(
        text=query, scope=place.scope, everywhere=place.scope is None, scope_only=True, limit=4 * limit
    )
    recalled = await recall(engine, question, agent=agent)
    found: dict[str, Found] = {}
    for hit in recalled.hits:
        one = _from_memory(engine, hit)
        found.setdefault(one.session_id, one)
    return list(found.values()), len(found)


def _from_memory(engine: Engine, hit: Hit) -> Found:
    memory = hit.memory
    return Found(
        session_id=session_of(memory) or f"memory:{memory.id}",
        project=memory.scope,
        summary=_cut(memory.topic or f"{memory.kind.value}: {memory.content}", LONGEST_SUMMARY),
        timestamp=memory.occurred,
        relevance="; ".join(hit.why),
        excerpt=_cut(hit.content, LONGEST_EXCERPT),
        source=MEMORY,
        score=hit.score,
        file=memory.provenance.file,
        line=memory.provenance.line,
    )


def _told_since(engine: Engine, projects: Sequence[TranscriptProject], since: datetime) -> list[Conversation]:
    """Conversations that were written to since then. Blocks."""
    told: list[Conversation] = []
    room = MOST_BYTES
    for project, file in _files(projects):
        if file.modified < since:
            break
        transcript = engine.transcripts.read(file, most_bytes=max(room, 0))
        if transcript is None:
            continue
        room -= transcript.bytes_read
        timestamp = transcript.ended if transcript.complete else None
        timestamp = timestamp or file.modified
        if timestamp >= since and (transcript.turns or not transcript.complete):
            told.append(
                Conversation(
                    session_id=transcript.session_id,
                    project=project.path,
                    title=_title(engine, transcript),
                    summary=_summary(engine, transcript),
                    timestamp=timestamp,
                    source=TRANSCRIPT,
                    model=transcript.model,
                )
            )
    return told


async def _conversations(engine: Engine, place: Place, since: datetime, *, agent: str) -> list[Conversation]:
    """Those that the store has memories of."""
    if place.project is not None and place.scope is None:
        return []
    scopes = (place.scope,) if place.scope else ()
    memories = await engine.store.find(Filter(viewer=agent, scopes=scopes, since=since), limit=MOST_MEMORIES)
    groups: dict[str, list[Memory]] = {}
    for memory in memories:
        if session := session_of(memory):
            groups.setdefault(session, []).append(memory)
    return [_conversation(session, group) for session, group in groups.items()]


def _conversation(session: str, newest_first: Sequence[Memory]) -> Conversation:
    """Told by its own summary where one was written, else by how it began."""
    episodes = [one for one in newest_first if one.kind is Kind.EPISODE and not role_of(one)]
    asked = [one for one in newest_first if is_message(one) and role_of(one) == "user"]
    first = (asked or list(newest_first))[-1]
    about = episodes[0] if episodes else first
    return Conversation(
        session_id=session,
        project=newest_first[0].scope,
        title=_cut(first.content, LONGEST_TITLE),
        summary=_cut(about.content, LONGEST_SUMMARY),
        timestamp=newest_first[0].occurred,
        source=MEMORY,
    )


def _title(engine: Engine, transcript: Transcript) -> str:
    told = transcript.title or _asked(transcript)
    return _cut(_shown(engine, told[:AROUND]), LONGEST_TITLE)


def _summary(engine: Engine, transcript: Transcript) -> str:
    """What the conversation calls itself, else how it began."""
    told = transcript.summary or transcript.title or _asked(transcript)
    return _cut(_shown(engine, told[:AROUND]), LONGEST_SUMMARY)


def _asked(transcript: Transcript) -> str:
    """The first thing that somebody asked for, past the greetings."""
    asked = [turn.text for turn in transcript.turns if turn.role == "user"]
    return next((text for text in asked if not is_noise(text)), asked[0] if asked else "")


def _shown(engine: Engine, text: str) -> str:
    """Without secrets; what tries to instruct its reader is not shown at all."""
    if suspicion(text).score >= QUARANTINE_FROM:
        return WITHHELD
    return safe_text(engine, text)


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _unknown(project: str | None) -> str:
    return f"No project is called {project!r}. Name one of the projects that there are, or leave it out."


def _suggestion(results: Sequence[Found], project: str | None, left: int) -> str | None:
    older = f"{left} older conversations were not read. Name a project to reach them." if left else None
    if results:
        return older
    wider = " or leave the project out" if project is not None else ""
    return " ".join(filter(None, [f"Nothing was found. Use fewer or other words{wider}.", older]))
