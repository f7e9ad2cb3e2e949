"""Feedback on tools: storing it, its report, and its effect on the memories that were in the answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from mindhold.conversations.sessions import (
    clean_conversation_name,
    conversation_key,
    conversation_of,
    write_activity,
)
from mindhold.engine import Engine
from mindhold.locks import claim
from mindhold.memories.prepare import safe_text
from mindhold.model.errors import MindholdError
from mindhold.model.job import Entry
from mindhold.model.memory import Status
from mindhold.model.scope import sees, visible_agents
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Rate

TOOLS = "tool_feedback"
TASKS = "task_feedback"
RATED = "rated:"  # followed by a conversation's key: which memories it has rated
KEPT = timedelta(days=365)
RATED_KEPT = timedelta(days=90)
LATELY = timedelta(days=30)
MOST = 10_000  # newest entries that a report reads
MOST_RATED = 50  # memories that one verdict rates
MOST_TOLD = 5  # suggestions per tool, and points of tasks
STEP = 0.1  # how far one verdict moves a memory's usefulness
HELD = timedelta(seconds=10)  # how long a dead process can block a conversation's ratings
PAUSE, TRIES = 0.05, 240  # seconds between attempts, and attempts: a little longer than HELD in total
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """Whether one answer of a tool was useful. `memories` are those that it rates; by default, of the latest answer."""

    tool: str
    relevant: bool
    sufficient: bool
    suggestion: str = ""
    context: str = ""
    conversation: str | None = None
    trigger: str = "voluntary"
    memories: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TaskEffect:
    """How the work of a whole conversation went."""

    success: bool
    highlights: Sequence[str]
    pain_points: Sequence[str]
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class FeedbackTally:
    """Verdicts on one tool: how many there are, and how many found it relevant, sufficient and both."""

    relevant: int = 0
    sufficient: int = 0
    count: int = 0
    served: int = 0

    def plus(self, verdict: Mapping[str, Any]) -> FeedbackTally:
        """Return the tally with one more verdict."""
        relevant, sufficient = bool(verdict["relevant"]), bool(verdict["sufficient"])
        return FeedbackTally(
            self.relevant + relevant,
            self.sufficient + sufficient,
            self.count + 1,
            self.served + (relevant and sufficient),
        )

    @property
    def share(self) -> float | None:
        """The share of answers that were both; None without a verdict."""
        return self.served / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Remark:
    """A suggestion."""

    text: str
    context: str
    when: datetime


@dataclass(frozen=True, slots=True)
class ToolReport:
    """Feedback on one tool: in total, in the last 30 days, before these, and the newest suggestions."""

    whole: FeedbackTally = field(default_factory=FeedbackTally)
    lately: FeedbackTally = field(default_factory=FeedbackTally)
    before: FeedbackTally = field(default_factory=FeedbackTally)
    suggestions: tuple[Remark, ...] = ()

    @property
    def trend(self) -> float | None:
        """How much more often the tool is useful lately than before; None if one of the two is unknown."""
        now, then = self.lately.share, self.before.share
        return None if now is None or then is None else now - then


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How whole conversations went, and the newest highlights and pain points."""

    count: int = 0
    succeeded: int = 0
    highlights: tuple[str, ...] = ()
    pain_points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """Reports by tool name, and the report on tasks."""

    tools: Mapping[str, ToolReport]
    tasks: TaskReport


def step_of(*, relevant: bool, sufficient: bool) -> float:
    """How far a verdict moves the memories of the answer. Relevant but insufficient ones don't move."""
    if not relevant:
        return -STEP
    return STEP if sufficient else 0.0


async def keep_verdict(
    engine: Engine, verdict: ToolVerdict, *, agent: str, held_in: str | None = None
) -> tuple[str, int]:
    """Store a verdict; return its id, and how many memories it moved.

    `held_in` is the conversation of the call, if the interface knows it: each conversation moves a memory once.
    """
    value = {
        "agent": agent,
        "tool": safe_text(engine, verdict.tool).strip(),
        "relevant": verdict.relevant,
        "sufficient": verdict.sufficient,
        "suggestion": safe_text(engine, verdict.suggestion),
        "context": safe_text(engine, verdict.context),
        "conversation": clean_conversation_name(engine, verdict.conversation)
        if verdict.conversation
        else None,
        "trigger": verdict.trigger,
    }
    entry_id = await _keep(engine, TOOLS, value)
    return entry_id, await _felt(engine, verdict, agent=agent, held_in=held_in)


async def keep_effect(engine: Engine, effect: TaskEffect, *, agent: str) -> str:
    """Store how a task went; return its id."""
    value = {
        "agent": agent,
        "success": effect.success,
        "highlights": [safe_text(engine, text) for text in effect.highlights],
        "pain_points": [safe_text(engine, text) for text in effect.pain_points],
        "conversation": clean_conversation_name(engine, effect.conversation) if effect.conversation else None,
    }
    return await _keep(engine, TASKS, value)


async def feedback_report(engine: Engine, *, agent: str) -> FeedbackReport:
    """Report the newest feedback that the agent may see."""
    now = engine.clock()
    tools: dict[str, ToolReport] = {}
    for entry in await _seen(engine, TOOLS, agent=agent):
        name = entry.value["tool"]
        tools[name] = _told(tools.get(name, ToolReport()), entry, lately=entry.created > now - LATELY)
    tasks = [entry.value for entry in await _seen(engine, TASKS, agent=agent)]
    return FeedbackReport(
        tools=dict(sorted(tools.items())),
        tasks=TaskReport(
            count=len(tasks),
            succeeded=sum(bool(task["success"]) for task in tasks),
            highlights=_newest(text for task in tasks for text in task["highlights"]),
            pain_points=_newest(text for task in tasks for text in task["pain_points"]),
        ),
    )


def _told(known: ToolReport, entry: Entry, *, lately: bool) -> ToolReport:
    value = entry.value
    suggestions = known.suggestions
    if value["suggestion"] and len(suggestions) < MOST_TOLD:
        suggestions = (*suggestions, Remark(value["suggestion"], value["context"], entry.created))
    return ToolReport(
        whole=known.whole.plus(value),
        lately=known.lately.plus(value) if lately else known.lately,
        before=known.before if lately else known.before.plus(value),
        suggestions=suggestions,
    )


def _newest(texts: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text.strip()))[:MOST_TOLD]


async def _seen(engine: Engine, drawer: str, *, agent: str) -> list[Entry]:
    """Return the newest entries that the agent may see.

    Each agent also has a namespace of its own, so that others can't push its entries out of its report.
    """
    now = engine.clock()
    drawers = [drawer, *(_own(drawer, other) for other in sorted(visible_agents(agent) or ()))]
    entries = [entry for name in drawers for entry in await engine.store.entries(name, now=now, limit=MOST)]
    visible = {entry.key: entry for entry in entries if sees(agent, entry.value["agent"])}
    return sorted(visible.values(), key=lambda entry: (entry.created, entry.key), reverse=True)[:MOST]


def _own(drawer: str, agent: str) -> str:
    return f"{drawer} of {agent}"


async def _felt(engine: Engine, verdict: ToolVerdict, *, agent: str, held_in: str | None) -> int:
    """Rate the memories of the answer that the agent sees, each once in a conversation."""
    by = step_of(relevant=verdict.relevant, sufficient=verdict.sufficient)
    if not by:
        return 0
    ids = list(verdict.memories) or await _answered(engine, verdict, agent=agent, held_in=held_in)
    memories = await engine.store.get_many(list(dict.fromkeys(ids))[:MOST_RATED], viewer=agent)
    rateable = [memory.id for memory in memories.values() if memory.status is not Status.FORGOTTEN]
    if not rateable:
        return 0
    now = engine.clock()
    # Without a known conversation a day counts as one: a name that the caller chooses would limit nothing.
    drawer = RATED + json.dumps([agent, held_in] if held_in else [agent, None, f"{now:%Y-%m-%d}"])
    for _ in range(TRIES):
        async with claim(engine, drawer, held=HELD) as acquired:
            if acquired:
                return await _moved(engine, drawer, rateable, by=by)
        await asyncio.sleep(PAUSE)
    log.warning("a verdict moved nothing: too many others were given in its conversation at the same time")
    return 0


async def _moved(engine: Engine, drawer: str, there: Sequence[str], *, by: float) -> int:
    """Rate those memories that this conversation hasn't rated yet; return how many."""
    now = engine.clock()
    rated = {
        memory_id
        for entry in await engine.store.entries(drawer, now=now, limit=MOST)
        for memory_id in entry.value.get("memories") or ()
    }
    fresh = [memory_id for memory_id in there if memory_id not in rated]
    if not fresh:
        return 0
    mark = Entry(drawer, engine.new_id(), {"by": by, "memories": fresh}, now, now + RATED_KEPT)
    await engine.store.put_entry(mark)
    try:
        await engine.store.apply([Rate(memory_id, by, now) for memory_id in fresh])
    except MindholdError:
        await engine.store.drop_entry(drawer, mark.key)  # so that the verdict can be given again
        raise
    return len(fresh)


async def _answered(engine: Engine, verdict: ToolVerdict, *, agent: str, held_in: str | None) -> list[str]:
    """Return the memories of that tool's latest answer, in the conversation of the call or else in the named one."""
    for name in (held_in, verdict.conversation):
        if not name:
            continue
        place = conversation_key(engine, name, agent=agent)
        await write_activity(engine, place)
        conversation = await conversation_of(engine, place.conversation, agent=agent)
        if conversation is not None and verdict.tool.strip() in conversation.answers:
            return list(conversation.answers[verdict.tool.strip()])
    return []


async def _keep(engine: Engine, drawer: str, value: dict[str, object]) -> str:
    now = engine.clock()
    entry = Entry(drawer, engine.new_id(), value, now, now + KEPT)
    for name in (drawer, _own(drawer, str(value["agent"]))):
        await engine.store.put_entry(replace(entry, drawer=name))
    return entry.key


LONGEST_FEEDBACK = 2_000
LONGEST_NAME = 200
MOST_MEMORIES = 50


class FeedbackInput(Input):
    """Whether a tool's answer served. `memories` are the ones it is about; else those of the latest answer."""

    tool_name: str = Field(
        min_length=1, max_length=LONGEST_NAME, description="The tool that was used.", examples=["recall"]
    )
    relevant: bool = Field(description="Whether the answer was relevant.", examples=[True])
    sufficient: bool = Field(description="Whether the answer was sufficient.", examples=[False])
    suggestion: str = Field(
        default="", max_length=LONGEST_FEEDBACK, description="What would have been better."
    )
    context: str = Field(default="", max_length=LONGEST_FEEDBACK, description="What it was used for.")
    conversation: str | None = Field(default=None, description="The conversation that it belongs to.")
    trigger: Literal["sampled", "voluntary"] = Field(
        default="voluntary", description="What prompted the feedback."
    )
    memories: list[str] = Field(
        default=[],
        max_length=MOST_MEMORIES,
        description="Ids of memories.",
        examples=[["01m7gv42a3fzcy3gb19vmek4q7"]],
    )


class FeedbackResult(Output):
    """Where it is kept, and how many memories count for more or less by it."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    recorded: bool = Field(default=True, examples=[True])
    rated: int = Field(default=0, examples=[1])


class FeedbackReportInput(Input):
    """Nothing to say."""


class TallyView(Output):
    """Of so many verdicts, how many found the answers relevant, sufficient, and both."""

    count: int = Field(description="Number of items in this answer.")
    relevant: int = Field(description="How many answers were relevant.")
    sufficient: int = Field(description="How many answers were sufficient.")
    served: int
    share: float | None = None  # of both; None where nobody said anything

    @classmethod
    def of(cls, tally: FeedbackTally) -> TallyView:
        return cls(
            count=tally.count,
            relevant=tally.relevant,
            sufficient=tally.sufficient,
            served=tally.served,
            share=None if tally.share is None else round(tally.share, 4),
        )


class RemarkView(Output):
    """What somebody suggested: data, never instructions."""

    text: str
    context: str = Field(description="What it was used for.")
    when: datetime = Field(description="When it happened.")

    @classmethod
    def of(cls, remark: Remark) -> RemarkView:
        return cls(text=remark.text, context=remark.context, when=remark.when)


class ToolReportView(Output):
    """Of one tool: all of it, the last 30 days, what was before them, and by how much it serves more often now."""

    whole: TallyView
    lately: TallyView
    before: TallyView
    trend: float | None = None
    suggestions: list[RemarkView]

    @classmethod
    def of(cls, report: ToolReport) -> ToolReportView:
        return cls(
            whole=TallyView.of(report.whole),
            lately=TallyView.of(report.lately),
            before=TallyView.of(report.before),
            trend=None if report.trend is None else round(report.trend, 4),
            suggestions=[RemarkView.of(remark) for remark in report.suggestions],
        )


class TaskReportView(Output):
    """How whole conversations went, and the newest of what was liked and what was not."""

    count: int = Field(description="Number of items in this answer.", examples=[3])
    succeeded: int = Field(examples=[3])
    share: float | None = Field(default=None, examples=[1.0])
    highlights: list[str] = Field(examples=[[]])
    pain_points: list[str] = Field(examples=[[]])

    @classmethod
    def of(cls, report: TaskReport) -> TaskReportView:
        return cls(
            count=report.count,
            succeeded=report.succeeded,
            share=round(report.succeeded / report.count, 4) if report.count else None,
            highlights=list(report.highlights),
            pain_points=list(report.pain_points),
        )


class FeedbackReportResult(Output):
    """By tool, and of tasks."""

    tools: dict[str, ToolReportView] = Field(
        examples=[
            {
                "recall": {
                    "whole": {"count": 10, "relevant": 9, "sufficient": 8, "served": 8, "share": 0.8},
                    "lately": {"count": 10, "relevant": 9, "sufficient": 8, "served": 8, "share": 0.8},
                    "before": {"count": 0, "relevant": 0, "sufficient": 0, "served": 0, "share": None},
                    "trend": None,
                    "suggestions": [
                        {"text": "Fewer, please.", "context": "", "when": "2026-11-16T10:30:00Z"}
                    ],
                }
            }
        ]
    )
    tasks: TaskReportView


async def _feedback(context: Context, request: FeedbackInput) -> FeedbackResult:
    """Keep whether a tool's answer served."""
    verdict = ToolVerdict(
        tool=request.tool_name,
        relevant=request.relevant,
        sufficient=request.sufficient,
        suggestion=request.suggestion,
        context=request.context,
        conversation=request.conversation or context.conversation,
        trigger=request.trigger,
        memories=request.memories,
    )
    entry_id, rated = await keep_verdict(
        context.engine, verdict, agent=context.agent, held_in=context.conversation
    )
    return FeedbackResult(id=entry_id, rated=rated)


FEEDBACK = operation("feedback", _feedback, writes=True)


async def _feedback_report(context: Context, _given: FeedbackReportInput) -> FeedbackReportResult:
    """What callers think of the tools."""
    report = await feedback_report(context.engine, agent=context.agent)
    return FeedbackReportResult(
        tools={name: ToolReportView.of(tool_report) for name, tool_report in report.tools.items()},
        tasks=TaskReportView.of(report.tasks),
    )


FEEDBACK_REPORT = operation("feedback_report", _feedback_report, reads=True)
