"""Past conversations: the transcripts that this machine keeps, and what the store remembers of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from recollect.engine.checks import safe_text
from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.draft import QUARANTINE_FROM
from recollect.engine.history_apart import apart
from recollect.engine.history_places import Place, place_of
from recollect.engine.history_ranking import Scored, WordSearch
from recollect.engine.messages import is_message, role_of, session_of
from recollect.engine.recall import Hit, Question, recall
from recollect.engine.reflect import REFLECTION
from recollect.engine.text.noise import is_noise
from recollect.engine.text.suspicion import suspicion
from recollect.model.errors import InvalidInput
from recollect.model.memory import Kind, Memory
from recollect.model.query import Filter, Order
from recollect.ports.transcripts import MOST_KEPT, Check, Digest, TranscriptFile, TranscriptProject

MOST_BYTES = 64 << 20  # of transcripts, after which one call reads no further one
JUST_NOW = timedelta(minutes=5)  # what was said since is the present, often the very question
MOST_MEMORIES = 2_000  # that a timeline looks at
LONGEST_EXCERPT = 400
LONGEST_SUMMARY = 300
LONGEST_TITLE = 100
AROUND = 4_000  # characters around an excerpt that are looked at for secrets
WITHHELD = "[withheld: it reads like instructions to its reader]"
WITHHELD_ALL = "Transcripts are the owner's and were not looked at: this caller sees memories only."
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
class Listed:
    """The folders that there are transcripts of, the one used last first, with their bytes on the disk."""

    projects: tuple[tuple[TranscriptProject, int], ...]
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A transcript that may answer; without a digest where it wasn't read."""

    project: TranscriptProject
    file: TranscriptFile
    digest: Digest | None


async def history_projects(engine: Engine) -> Listed:
    """All of them."""

    def listed(check: Check) -> tuple[tuple[TranscriptProject, int], ...]:
        sized = []
        for project in engine.transcripts.projects():
            check()
            sized.append((project, engine.transcripts.size(project)))
        return tuple(sized)

    return Listed(await apart(listed), WITHHELD_ALL if engine.transcripts.withheld else None)


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
    projects = await apart(lambda _: engine.transcripts.projects())
    place = await _place(engine, project, projects)
    if place is None:
        return Searched((), 0, _said(engine, _unknown(project)))
    chosen = _chosen(place, projects)
    told, read, left = await apart(partial(_told, engine, chosen, WordSearch(query), limit))
    remembered, others = await _remembered(engine, query, place, agent=agent, limit=limit)
    results: dict[str, Found] = {}
    for found in sorted([*told, *remembered], key=lambda found: -found.score):
        results.setdefault(found.session_id, found)
    best = tuple(found for session, found in results.items() if session != besides)[:limit]
    return Searched(best, read + others, _said(engine, _suggestion(best, project, left)))


async def history_timeline(
    engine: Engine, *, agent: str, days: int = 7, project: str | None = None
) -> Passed:
    """The conversations of the last days, the newest first. Raises InvalidInput."""
    until = engine.clock()
    since = until - timedelta(days=days)
    projects = await apart(lambda _: engine.transcripts.projects())
    place = await _place(engine, project, projects)
    if place is None:
        return Passed((), since, until, _said(engine, _unknown(project)))
    told = await apart(partial(_told_since, engine, _chosen(place, projects), since))
    known = {one.session_id: one for one in await _conversations(engine, place, since, agent=agent)}
    known.update({one.session_id: one for one in told})
    ordered = sorted(known.values(), key=lambda one: (one.timestamp, one.session_id), reverse=True)
    nothing = (
        None if ordered else "No conversation in that time. Ask for more days, or leave the project out."
    )
    return Passed(tuple(ordered), since, until, _said(engine, nothing))


async def _place(engine: Engine, project: str | None, projects: Sequence[TranscriptProject]) -> Place | None:
    if project is None:
        return Place()
    return place_of(project, projects, await engine.store.scopes(), home=str(Path.home()))


def _chosen(place: Place, projects: list[TranscriptProject]) -> list[TranscriptProject]:
    if place == Place():
        return projects
    return [place.project] if place.project else []


def _told(
    engine: Engine, projects: Sequence[TranscriptProject], words: WordSearch, limit: int, check: Check
) -> tuple[list[Found], int, int]:
    """What answers, among how many conversations, and how many were not read. Blocks."""
    candidates = list(_candidates(engine, projects, check))
    before = engine.clock() - JUST_NOW
    read = []
    for one in candidates:
        check()
        if one.digest is not None:
            words.take(one.digest, before=before)
            read.append((one, one.digest))
    answering = [
        (scored, one, digest)
        for scored, (one, digest) in zip(words.scores(), read, strict=True)
        if scored is not None
    ]
    best = sorted(answering, key=lambda found: -found[0].score)[:limit]
    told = [_from_transcript(engine, one, digest, scored, words) for scored, one, digest in best]
    return [found for found in told if found is not None], len(read), len(candidates) - len(read)


def _candidates(
    engine: Engine, projects: Sequence[TranscriptProject], check: Check, *, since: datetime | None = None
) -> Iterator[_Candidate]:
    """Every transcript that there is, newest first. Those beyond what one call may read, and beyond what can be kept,
    have no digest."""
    pairs = [(project, file) for project in projects for file in project.files]
    unread, free = MOST_BYTES, MOST_KEPT
    for project, file in sorted(pairs, key=lambda pair: pair[1].modified, reverse=True):
        check()
        if since is not None and file.modified < since:
            return
        digest = engine.transcripts.kept(file)
        if digest is None and unread > 0 and min(file.size, MOST_BYTES) <= free:
            unread -= file.size
            digest = engine.transcripts.digest(file, most_bytes=MOST_BYTES, check=check)
            if digest is None:  # gone
                continue
            if digest.size <= free:
                engine.transcripts.keep(file, digest)
        free -= digest.size if digest else 0
        yield _Candidate(project, file, digest)


def _from_transcript(
    engine: Engine, one: _Candidate, digest: Digest, scored: Scored, words: WordSearch
) -> Found | None:
    said = digest.turns[scored.place]
    turn = engine.transcripts.turn(one.file.path, said)
    if turn is None:
        return None
    around = words.excerpt(turn.text, length=AROUND)
    return Found(
        session_id=digest.about.session_id,
        project=one.project.path,
        summary=_summary(engine, digest),
        timestamp=said.timestamp or digest.about.ended or one.file.modified,
        relevance=words.relevance(scored),
        excerpt=words.excerpt(_shown(engine, around), length=LONGEST_EXCERPT),
        source=TRANSCRIPT,
        score=scored.score,
        file=str(one.file.path),
        line=said.line,
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
    shown = [await _with_reflection(engine, one, agent=agent) for one in list(found.values())[:limit]]
    return shown, len(found)


async def _with_reflection(engine: Engine, found: Found, *, agent: str) -> Found:
    """Told by what somebody said of that conversation at its end, where somebody did."""
    where = Filter(viewer=agent, conversation=found.session_id, tags=(REFLECTION,), minimum_trust=LEAST_TRUST)
    said = await engine.store.find(where, order=Order.NEWEST, limit=1)
    return replace(found, summary=_cut(said[0].content, LONGEST_SUMMARY)) if said else found


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


def _told_since(
    engine: Engine, projects: Sequence[TranscriptProject], since: datetime, check: Check
) -> list[Conversation]:
    """Conversations that were written to since then. Blocks."""
    told: list[Conversation] = []
    for one in _candidates(engine, projects, check, since=since):
        digest = one.digest
        timestamp = digest.about.ended if digest and digest.about.complete else None
        timestamp = timestamp or one.file.modified
        if timestamp < since or (digest and digest.about.complete and not digest.turns):
            continue
        told.append(
            Conversation(
                session_id=digest.about.session_id if digest else one.file.path.stem,
                project=one.project.path,
                title=_title(engine, digest) if digest else "",
                summary=_summary(engine, digest) if digest else "",
                timestamp=timestamp,
                source=TRANSCRIPT,
                model=digest.about.model if digest else None,
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


def _title(engine: Engine, digest: Digest) -> str:
    told = digest.about.title or _asked(digest)
    return _cut(_shown(engine, told[:AROUND]), LONGEST_TITLE)


def _summary(engine: Engine, digest: Digest) -> str:
    """What the conversation calls itself, else how it began."""
    about = digest.about
    told = engine.transcripts.note(about.file) or about.summary or about.title or _asked(digest)
    return _cut(_shown(engine, told[:AROUND]), LONGEST_SUMMARY)


def _asked(digest: Digest) -> str:
    """The first thing that somebody asked for, past the greetings."""
    return next(
        (text for text in digest.asked if not is_noise(text)), digest.asked[0] if digest.asked else ""
    )


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


def _said(engine: Engine, suggestion: str | None) -> str | None:
    """With the truth for those who are not shown this machine's transcripts."""
    if not engine.transcripts.withheld:
        return suggestion
    return " ".join(filter(None, [suggestion, WITHHELD_ALL]))


def _suggestion(results: Sequence[Found], project: str | None, left: int) -> str | None:
    older = (
        f"{left} older conversations were not read yet. Ask again, or name a project, to reach them."
        if left
        else None
    )
    if results:
        return older
    wider = " or leave the project out" if project is not None else ""
    return " ".join(filter(None, [f"Nothing was found. Use fewer or other words{wider}.", older]))
