"""Counts of what is remembered, feedback on tools, and what models have cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pydantic import Field

from mindhold.backup.create import backups
from mindhold.conversations.sessions import count_conversations, write_activity
from mindhold.lifecycle.contradictions import list_contradictions
from mindhold.lifecycle.stage_report import last_consolidated
from mindhold.lifecycle.status import status
from mindhold.memories.assistant_store import by_source
from mindhold.memories.feedback import feedback_report
from mindhold.memories.model_budget import EMBEDDING, spent_today
from mindhold.memories.views import Notice, View
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, operation
from mindhold.projects.storage import reachable_scopes, storages, unreachable_notice


class StatsInput(Input):
    """Nothing to say."""


class ToolFeedback(View):
    """What was said of one tool: how many answers were relevant and sufficient, of how many."""

    relevant: int = Field(description="How many answers were relevant.")
    sufficient: int = Field(description="How many answers were sufficient.")
    count: int = Field(description="Number of items in this answer.")


class TaskFeedback(View):
    """How many conversations were said to have reached what they were for, of how many."""

    succeeded: int = Field(examples=[3])
    count: int = Field(description="Number of items in this answer.", examples=[3])


class SpendView(View):
    """What language models were asked for today (UTC), by everybody, and how much they may be."""

    calls: int = Field(examples=[4])
    failed: int = Field(description="How many failed.", examples=[0])
    tokens_in: int = Field(examples=[3100])
    tokens_out: int = Field(examples=[420])
    daily_tokens: int = Field(examples=[100000])


class ServiceSpendView(View):
    """What embedding services were asked for today (UTC), by everybody; no cap where `daily_tokens` is 0."""

    calls: int = Field(examples=[0])
    failed: int = Field(description="How many failed.", examples=[0])
    tokens: int = Field(description="Number of tokens.", examples=[0])
    dollars: float = Field(examples=[0.0])
    daily_tokens: int = Field(examples=[0])


class StatsResult(View):
    """Counts of active memories unless they say otherwise."""

    total: int = Field(description="Total number.", examples=[1523])
    by_status: dict[str, int] = Field(examples=[{"active": 1523}])
    by_kind: dict[str, int] = Field(examples=[{"fact": 900, "episode": 623}])
    by_tier: dict[str, int] = Field(examples=[{"warm": 1523}])
    by_scope: dict[str, int] = Field(
        description="Number of memories by scope.", examples=[{"Global": 23, "shop": 1500}]
    )
    by_agent: dict[str, int] = Field(examples=[{"default": 1523}])
    by_source: dict[str, int] = Field(
        examples=[{"messages": 1200, "notes": 300, "summaries": 20, "profile_facts": 3}]
    )
    embedded: int = Field(description="How many memories have vectors.", examples=[1523])
    embedded_ratio: float = Field(examples=[1.0])
    anchors: int = Field(examples=[2])
    unverified: int = Field(examples=[0])  # that wait to be evaluated
    pending_contradictions: int = Field(examples=[1])  # pairs that wait for somebody to decide
    links: int = Field(description="Number of links.", examples=[310])
    conversations: int = Field(examples=[12])
    feedback: dict[str, ToolFeedback] = Field(
        examples=[{"recall": {"relevant": 9, "sufficient": 8, "count": 10}}]
    )
    tasks: TaskFeedback
    last_backup: datetime | None = Field(default=None, examples=["2026-11-02T08:15:00Z"])
    last_consolidated: datetime | None = None
    bytes_used: int = Field(examples=[48213000])
    megabytes: float = Field(examples=[48.21])
    model: str | None = None
    rung: str = Field(description="Search level: full text alone, or with vectors.", examples=["semantic"])
    jobs: dict[str, int] = Field(examples=[{}])
    models_today: SpendView
    services_today: ServiceSpendView
    notice: Notice = ""  # which stores don't answer


async def _stats(context: Context, _given: StatsInput) -> StatsResult:
    """How much is remembered."""
    engine, store = context.engine, context.engine.store
    await write_activity(engine)  # so that the newest conversations count too
    storage = await storages(engine)
    active = Filter(viewer=context.agent, scopes=await reachable_scopes(engine, storage))
    report = await status(engine, storage, agent=context.agent)
    whole = [item for item in await backups(engine) if item.whole]
    feedback = await feedback_report(engine, agent=context.agent)
    spent, services = await spent_today(engine), await spent_today(engine, EMBEDDING)
    size = report.store["bytes"] if context.owner else 0  # it includes what others store
    return StatsResult.fill(
        report,
        total=report.memories,
        by_tier=await store.tally(active, "tier"),
        by_agent=await store.tally(active, "agent"),
        by_source=await by_source(engine, active),
        embedded_ratio=round(report.embedded / report.memories, 4) if report.memories else 0.0,
        anchors=await store.count(replace(active, anchored=True)),
        unverified=await store.count(replace(active, unverified=True)),
        pending_contradictions=len(await list_contradictions(engine, agent=context.agent, pending=True)),
        links=await store.count_links(active),
        conversations=await count_conversations(engine, agent=context.agent),
        feedback={name: ToolFeedback.fill(tool_report.whole) for name, tool_report in feedback.tools.items()},
        tasks=TaskFeedback.fill(feedback.tasks),
        last_backup=whole[0].created if whole else None,
        last_consolidated=await last_consolidated(engine),
        bytes_used=size,
        megabytes=round(size / 1e6, 2),
        models_today=SpendView.fill(spent, daily_tokens=engine.settings.llm.daily_tokens),
        services_today=ServiceSpendView.fill(
            services,
            dollars=round(services.dollars, 9),
            daily_tokens=engine.vector_source.terms.daily_tokens if engine.vector_source.terms else 0,
        ),
        notice=unreachable_notice(storage),
    )


STATS = operation("stats", _stats, reads=True)
