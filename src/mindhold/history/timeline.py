"""The conversations of some days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import Field

from mindhold.conversations.messages import is_message, role_of, session_of
from mindhold.engine import Engine
from mindhold.history.excerpts import (
    LONGEST_SUMMARY,
    LONGEST_TITLE,
    first_safe_line,
    safe_line,
    shortened_line,
)
from mindhold.history.hits import ARCHIVE, MEMORY, TRANSCRIPT
from mindhold.history.projects import (
    ProjectSelection,
    by_session,
    chosen_project,
    history_notice,
    known_conversations,
    last_moment,
    unknown_project,
    worked_in,
)
from mindhold.memories.filters import timeframe_of
from mindhold.model.memory import Kind, Memory
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import IndexedConversation

MOST_MEMORIES = 2_000  # that are looked at


@dataclass(frozen=True, slots=True)
class TimelineSession:
    """One past conversation."""

    session_id: str
    project: str
    title: str
    summary: str
    timestamp: datetime
    source: str
    model: str | None = None
    agent: str = ""  # whose conversation: claude, codex, gemini, cursor


@dataclass(frozen=True, slots=True)
class HistoryTimeline:
    """The conversations of some days, and how many there were beyond those."""

    sessions: tuple[TimelineSession, ...]
    total: int
    since: datetime
    until: datetime
    suggestion: str | None = None


async def history_timeline(
    engine: Engine, *, agent: str, days: int = 7, when: str = "", project: str | None = None, most: int = 200
) -> HistoryTimeline:
    """The conversations of the last days, or of a time in words, the newest first. Raises InvalidInput, the store's errors."""
    since, until = _period(engine, days=days, when=when)
    known = await known_conversations(engine, unread=True)
    place = await chosen_project(engine, project, known.every)
    if place is None:
        return HistoryTimeline((), 0, since, until, history_notice(engine, unknown_project(project)))
    told_of = await _remembered(engine, place, since, agent=agent)
    remembered = {one.session_id: one for one in told_of if one.session_id not in known.left_out}
    held = {one.belongs_to: (one, moment) for one, moment in _held(known.every, place, since)}
    last = {session: one.timestamp for session, one in remembered.items()}
    last |= {session: moment for session, (_, moment) in held.items()}
    if when:
        begun = {session: one.started or moment for session, (one, moment) in held.items()}
        last = {
            session: moment
            for session, moment in last.items()
            if moment <= until or since <= begun.get(session, moment) <= until
        }
    newest = sorted(last, key=lambda session: (last[session], session), reverse=True)
    listed = tuple(
        _session(engine, *held[session]) if session in held else remembered[session]
        for session in newest[:most]
    )
    return HistoryTimeline(
        listed, len(newest), since, until, history_notice(engine, None if listed else _nothing(when, project))
    )


def _nothing(when: str, project: str | None) -> str:
    ways = ["ask for more days"] * (not when) + ["leave the project out"] * (project is not None)
    return "No conversation in that time." + (f" {', or '.join(ways).capitalize()}." if ways else "")


def _period(engine: Engine, *, days: int, when: str) -> tuple[datetime, datetime]:
    """Its first and its last moment."""
    now = engine.clock()
    if not when:
        return now - timedelta(days=days), now
    frame = timeframe_of(engine, when)
    since = frame.start or datetime.fromtimestamp(0, UTC)
    return since, frame.end - timedelta(microseconds=1) if frame.end else now


def _held(
    conversations: Iterable[IndexedConversation], place: ProjectSelection, since: datetime
) -> Iterable[tuple[IndexedConversation, datetime]]:
    """Those that somebody said something in since then, and when that was last."""
    for held in by_session(conversations).values():
        moment = max(map(last_moment, held))
        said = any(one.ended or not one.row for one in held)
        if said and moment >= since and place.has(held[0]):
            yield held[0], moment


def _session(engine: Engine, one: IndexedConversation, moment: datetime) -> TimelineSession:
    title = safe_line(engine, one.title.text, LONGEST_TITLE)
    summary = first_safe_line(engine, one.summary.text, one.title.text, longest=LONGEST_SUMMARY)
    return TimelineSession(
        session_id=one.belongs_to,
        project=worked_in(one),
        title=title,
        summary=_besides(title, summary),
        timestamp=moment,
        source=ARCHIVE if one.gone else TRANSCRIPT,
        model=one.model or None,
        agent=one.source,
    )


def _besides(title: str, summary: str) -> str:
    """What a summary that begins with the title says beyond that, where it does."""
    rest = summary.removeprefix(title.rstrip("…")).lstrip(" .…:;,?!")
    return rest if rest and title and not title.endswith("…") else summary


async def _remembered(
    engine: Engine, place: ProjectSelection, since: datetime, *, agent: str
) -> list[TimelineSession]:
    """Those that the store has memories of."""
    if not place.remembers:
        return []
    scopes = (place.scope,) if place.scope else ()
    memories = await engine.store.find(Filter(viewer=agent, scopes=scopes, since=since), limit=MOST_MEMORIES)
    groups: dict[str, list[Memory]] = {}
    for memory in memories:
        if session := session_of(memory):
            groups.setdefault(session, []).append(memory)
    return [_of_memories(session, group) for session, group in groups.items()]


def _of_memories(session: str, newest_first: Sequence[Memory]) -> TimelineSession:
    """Told by its own summary where one was written, else by how it began."""
    episodes = [one for one in newest_first if one.kind is Kind.EPISODE and not role_of(one)]
    asked = [one for one in newest_first if is_message(one) and role_of(one) == "user"]
    first = (asked or list(newest_first))[-1]
    about = episodes[0] if episodes else first
    return TimelineSession(
        session_id=session,
        project=newest_first[0].scope,
        title=shortened_line(first.content, LONGEST_TITLE),
        summary=shortened_line(about.content, LONGEST_SUMMARY),
        timestamp=newest_first[0].occurred,
        source=MEMORY,
    )


MOST_SESSIONS = 200


class HistoryTimelineInput(Input):
    """How far back, or of which time in words ("last month"), and of which project."""

    days: int = Field(
        default=7,
        ge=1,
        le=3650,
        description="How many days to look back.",
        examples=[7],
    )
    when: str = Field(default="", description="A period in words, such as `last week`.")
    project: str | None = Field(default=None, description="The project's name.")
    limit: int = Field(
        default=MOST_SESSIONS, ge=1, le=MOST_SESSIONS, description="Maximum number of results."
    )


class SessionView(Output):
    """One past conversation."""

    session_id: str = Field(
        description="The session that it was said in.", examples=["488c5296-1f0a-4f0e-9a53-0d6f1f1f2a77"]
    )
    project: str = Field(description="The project's name.", examples=["/home/me/src/shop"])
    title: str = Field(examples=["Login fails behind the proxy"])
    summary: str = Field(description="The summary.", examples=["The cookie lacked SameSite."])
    timestamp: datetime = Field(description="When it was said.", examples=["2026-11-16T10:30:00Z"])
    model: str | None = None
    source: str = Field(
        description="Its source.", examples=["transcript"]
    )  # transcript, archive (its file is gone) or memory
    agent: str = Field(
        default="", description="The program whose transcript it is.", examples=["claude"]
    )  # claude, codex, gemini or cursor; empty of a memory

    @classmethod
    def of(cls, one: TimelineSession) -> SessionView:
        """The conversation as its view."""
        return cls(
            session_id=one.session_id,
            project=one.project,
            title=one.title,
            summary=one.summary,
            timestamp=one.timestamp,
            model=one.model,
            source=one.source,
            agent=one.agent,
        )


class HistoryTimelineResult(Output):
    """The newest first; `total_sessions` counts those beyond what is listed too."""

    sessions: list[SessionView]
    total_sessions: int = Field(examples=[1])
    date_range: str = Field(examples=["2026-11-09 to 2026-11-16"])
    suggestion: str | None = Field(default=None, description="What would have been better.")


async def _timeline(context: Context, request: HistoryTimelineInput) -> HistoryTimelineResult:
    """The conversations of the last days."""
    passed = await history_timeline(
        context.engine,
        agent=context.agent,
        days=request.days,
        when=request.when,
        project=request.project,
        most=request.limit,
    )
    zone = context.engine.zone()
    return HistoryTimelineResult(
        sessions=[SessionView.of(one) for one in passed.sessions],
        total_sessions=passed.total,
        date_range=f"{passed.since.astimezone(zone):%Y-%m-%d} to {passed.until.astimezone(zone):%Y-%m-%d}",
        suggestion=passed.suggestion,
    )


HISTORY_TIMELINE = operation("history_timeline", _timeline, reads=True)
