"""Lists the conversations of a period."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field

from mindhold.conversations.messages import is_message, role_of, session_of
from mindhold.engine import Engine
from mindhold.history.excerpts import LONGEST_SUMMARY, LONGEST_TITLE, shortened_line
from mindhold.history.hits import ARCHIVE, MEMORY, TRANSCRIPT, named_hit
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

MOST_MEMORIES = 2_000  # memories that are considered


MOST_SESSIONS = 200


class HistoryTimelineInput(Input):
    """How many days back, or a period in words ("last month"), and of which project."""

    days: int = Field(default=7, ge=1, le=3650, description="How many days to look back.", examples=[7])
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
    # transcript, archive (its file is gone) or memory
    source: str = Field(description="Its source.", examples=["transcript"])
    # claude, codex, gemini or cursor; empty for a memory
    agent: str = Field(default="", description="The program whose transcript it is.", examples=["claude"])


class HistoryTimelineResult(Output):
    """The conversations, newest first; `total_sessions` also counts those that aren't listed."""

    sessions: list[SessionView]
    total_sessions: int = Field(examples=[1])
    date_range: str = Field(examples=["2026-11-09 to 2026-11-16"])
    suggestion: str | None = Field(default=None, description="What would have been better.")


async def _timeline(context: Context, request: HistoryTimelineInput) -> HistoryTimelineResult:
    """The conversations of the last days, or of a period in words, the newest first.

    Raises InvalidInput, the store's errors.
    """
    engine, when, project = context.engine, request.when, request.project
    since, until = _period(engine, days=request.days, when=when)
    zone = engine.zone()
    date_range = f"{since.astimezone(zone):%Y-%m-%d} to {until.astimezone(zone):%Y-%m-%d}"
    conversations = await known_conversations(engine, unread=True)
    place = await chosen_project(engine, project, conversations.every)
    if place is None:
        suggestion = history_notice(engine, unknown_project(project))
        return HistoryTimelineResult(
            sessions=[], total_sessions=0, date_range=date_range, suggestion=suggestion
        )
    from_memories = await _remembered(engine, place, since, agent=context.agent)
    remembered = {
        session.session_id: session
        for session in from_memories
        if session.session_id not in conversations.left_out
    }
    from_transcripts = {
        conversation.belongs_to: (conversation, moment)
        for conversation, moment in _held(conversations.every, place, since)
    }
    last = {session_id: session.timestamp for session_id, session in remembered.items()}
    last |= {session_id: moment for session_id, (_, moment) in from_transcripts.items()}
    if when:
        starts = {
            session_id: conversation.started or moment
            for session_id, (conversation, moment) in from_transcripts.items()
        }
        last = {
            session_id: moment
            for session_id, moment in last.items()
            if moment <= until or since <= starts.get(session_id, moment) <= until
        }
    newest = sorted(last, key=lambda session_id: (last[session_id], session_id), reverse=True)
    sessions = [
        _session(engine, *from_transcripts[session_id])
        if session_id in from_transcripts
        else remembered[session_id]
        for session_id in newest[: request.limit]
    ]
    return HistoryTimelineResult(
        sessions=sessions,
        total_sessions=len(newest),
        date_range=date_range,
        suggestion=history_notice(engine, None if sessions else _nothing(when, project)),
    )


HISTORY_TIMELINE = operation("history_timeline", _timeline, reads=True)


def _nothing(when: str, project: str | None) -> str:
    ways = ["ask for more days"] * (not when) + ["leave the project out"] * (project is not None)
    return "No conversation in that time." + (f" {', or '.join(ways).capitalize()}." if ways else "")


def _period(engine: Engine, *, days: int, when: str) -> tuple[datetime, datetime]:
    """The first and the last moment of the period."""
    now = engine.clock()
    if not when:
        return now - timedelta(days=days), now
    frame = timeframe_of(engine, when)
    since = frame.start or datetime.fromtimestamp(0, UTC)
    return since, frame.end - timedelta(microseconds=1) if frame.end else now


def _held(
    conversations: Iterable[IndexedConversation], place: ProjectSelection, since: datetime
) -> Iterable[tuple[IndexedConversation, datetime]]:
    """Sessions in which something was said since then, and when that was last."""
    for session_files in by_session(conversations).values():
        moment = max(map(last_moment, session_files))
        has_speech = any(conversation.ended or not conversation.row for conversation in session_files)
        if has_speech and moment >= since and place.has(session_files[0]):
            yield session_files[0], moment


def _session(engine: Engine, one: IndexedConversation, moment: datetime) -> SessionView:
    title, summary = named_hit(engine, one)
    return SessionView(
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
    """The summary without the title that it begins with, if anything is left."""
    rest = summary.removeprefix(title.rstrip("…")).lstrip(" .…:;,?!")
    return rest if rest and title and not title.endswith("…") else summary


async def _remembered(
    engine: Engine, place: ProjectSelection, since: datetime, *, agent: str
) -> list[SessionView]:
    """Sessions that the store has memories of."""
    if not place.remembers:
        return []
    scopes = (place.scope,) if place.scope else ()
    memories = await engine.store.find(Filter(viewer=agent, scopes=scopes, since=since), limit=MOST_MEMORIES)
    groups: dict[str, list[Memory]] = {}
    for memory in memories:
        if session := session_of(memory):
            groups.setdefault(session, []).append(memory)
    return [_of_memories(session, group) for session, group in groups.items()]


def _of_memories(session: str, newest_first: Sequence[Memory]) -> SessionView:
    """A session described by its own summary if there is one, else by its first message."""
    episodes = [memory for memory in newest_first if memory.kind is Kind.EPISODE and not role_of(memory)]
    prompts = [memory for memory in newest_first if is_message(memory) and role_of(memory) == "user"]
    first = (prompts or list(newest_first))[-1]
    about = episodes[0] if episodes else first
    return SessionView(
        session_id=session,
        project=newest_first[0].scope,
        title=shortened_line(first.content, LONGEST_TITLE),
        summary=shortened_line(about.content, LONGEST_SUMMARY),
        timestamp=newest_first[0].occurred,
        source=MEMORY,
    )
