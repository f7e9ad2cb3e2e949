"""What callers think of the tools: kept as small entries, told as counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from recollect.engine.checks import safe_text
from recollect.engine.conversations import called
from recollect.engine.core import Engine
from recollect.model.access import sees
from recollect.model.entry import Entry

TOOLS = "tool_feedback"
TASKS = "task_feedback"
KEPT = timedelta(days=365)
MOST = 10_000  # of which a tally is made: the newest


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one answer of a tool served."""

    tool: str
    relevant: bool
    sufficient: bool
    suggestion: str = ""
    context: str = ""
    conversation: str | None = None
    trigger: str = "voluntary"


@dataclass(frozen=True, slots=True)
class TaskEffect:
    """How a whole conversation's work went."""

    success: bool
    highlights: Sequence[str]
    pain_points: Sequence[str]
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What was said of one tool."""

    relevant: int
    sufficient: int
    count: int


async def keep_verdict(engine: Engine, verdict: Verdict, *, agent: str) -> str:
    """Its id."""
    value = {
        "agent": agent,
        "tool": safe_text(engine, verdict.tool).strip(),
        "relevant": verdict.relevant,
        "sufficient": verdict.sufficient,
        "suggestion": safe_text(engine, verdict.suggestion),
        "context": safe_text(engine, verdict.context),
        "conversation": called(engine, verdict.conversation) if verdict.conversation else None,
        "trigger": verdict.trigger,
    }
    return await _keep(engine, TOOLS, value)


async def keep_effect(engine: Engine, effect: TaskEffect, *, agent: str) -> str:
    """Its id."""
    value = {
        "agent": agent,
        "success": effect.success,
        "highlights": [safe_text(engine, text) for text in effect.highlights],
        "pain_points": [safe_text(engine, text) for text in effect.pain_points],
        "conversation": called(engine, effect.conversation) if effect.conversation else None,
    }
    return await _keep(engine, TASKS, value)


async def tally_verdicts(engine: Engine, *, agent: str) -> dict[str, Tally]:
    """By tool, of the newest verdicts that the agent may know of."""
    tallies: dict[str, Tally] = {}
    for entry in await engine.store.entries(TOOLS, now=engine.clock(), limit=MOST):
        value = entry.value
        if not sees(agent, value["agent"]):
            continue
        known = tallies.get(value["tool"], Tally(0, 0, 0))
        tallies[value["tool"]] = Tally(
            known.relevant + value["relevant"], known.sufficient + value["sufficient"], known.count + 1
        )
    return dict(sorted(tallies.items()))


async def _keep(engine: Engine, drawer: str, value: dict[str, object]) -> str:
    now = engine.clock()
    entry = Entry(drawer, engine.new_id(), value, now, now + KEPT)
    await engine.store.put_entry(entry)
    return entry.key
