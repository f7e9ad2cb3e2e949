"""Counts of what is remembered, feedback on tools, and what models have cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.backup.create import backups
from mindhold.conversations.sessions import count_conversations, write_activity
from mindhold.lifecycle.contradictions import list_contradictions
from mindhold.lifecycle.stages import last_consolidated
from mindhold.lifecycle.status import status
from mindhold.memories.assistant_store import by_source
from mindhold.memories.feedback import feedback_report
from mindhold.memories.spending import EMBEDDING, spent_today
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.storage import unreachable_notice


class StatsInput(Input):
    """Nothing to say."""


class ToolFeedback(Output):
    """What was said of one tool: how many answers were relevant and sufficient, of how many."""

    relevant: int
    sufficient: int
    count: int


class TaskFeedback(Output):
    """How many conversations were said to have reached what they were for, of how many."""

    succeeded: int
    count: int


class SpendView(Output):
    """What language models were asked for today (UTC), by everybody, and how much they may be."""

    calls: int
    failed: int
    tokens_in: int
    tokens_out: int
    daily_tokens: int


class ServiceSpendView(Output):
    """What embedding services were asked for today (UTC), by everybody; no cap where `daily_tokens` is 0."""

    calls: int
    failed: int
    tokens: int
    dollars: float
    daily_tokens: int


class StatsResult(Output):
    """Counts of active memories unless they say otherwise."""

    total: int
    by_status: dict[str, int]
    by_kind: dict[str, int]
    by_tier: dict[str, int]
    by_scope: dict[str, int]
    by_agent: dict[str, int]
    by_source: dict[str, int]  # messages, notes, summaries, profile_facts
    embedded: int
    embedded_ratio: float
    anchors: int
    unverified: int  # that wait to be evaluated
    pending_contradictions: int  # pairs that wait for somebody to decide
    links: int
    conversations: int
    feedback: dict[str, ToolFeedback]
    tasks: TaskFeedback
    last_backup: datetime | None = None
    last_consolidated: datetime | None = None
    bytes_used: int
    megabytes: float
    model: str | None = None
    rung: str
    jobs: dict[str, int]
    models_today: SpendView
    services_today: ServiceSpendView
    notice: str = ""  # which stores don't answer


async def _stats(context: Context, _given: StatsInput) -> StatsResult:
    """How much is remembered."""
    engine, store = context.engine, context.engine.store
    await write_activity(engine)  # conversations that are a moment old count too
    report = await status(engine, agent=context.agent)
    active = Filter(viewer=context.agent, scopes=report.reached)
    whole = [one for one in await backups(engine) if one.whole]
    said = await feedback_report(engine, agent=context.agent)
    spent, sent = await spent_today(engine), await spent_today(engine, EMBEDDING)
    size = report.store.bytes_used if context.owner else 0  # of what others keep, too
    return StatsResult(
        total=report.memories,
        by_status=dict(report.by_status),
        by_kind=dict(report.by_kind),
        by_tier=await store.tally(active, "tier"),
        by_scope=dict(report.by_scope),
        by_agent=await store.tally(active, "agent"),
        by_source=await by_source(engine, active),
        embedded=report.embedded,
        embedded_ratio=round(report.embedded / report.memories, 4) if report.memories else 0.0,
        anchors=await store.count(replace(active, anchored=True)),
        unverified=await store.count(replace(active, unverified=True)),
        pending_contradictions=len(await list_contradictions(engine, agent=context.agent, pending=True)),
        links=await store.count_links(active),
        conversations=await count_conversations(engine, agent=context.agent),
        feedback={
            name: ToolFeedback(
                relevant=one.whole.relevant, sufficient=one.whole.sufficient, count=one.whole.count
            )
            for name, one in said.tools.items()
        },
        tasks=TaskFeedback(succeeded=said.tasks.succeeded, count=said.tasks.count),
        last_backup=whole[0].created if whole else None,
        last_consolidated=await last_consolidated(engine),
        bytes_used=size,
        megabytes=round(size / 1e6, 2),
        model=report.model,
        rung=report.rung,
        jobs=dict(report.jobs),
        models_today=SpendView(
            calls=spent.calls,
            failed=spent.failed,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            daily_tokens=engine.settings.llm.daily_tokens,
        ),
        services_today=ServiceSpendView(
            calls=sent.calls,
            failed=sent.failed,
            tokens=sent.tokens,
            dollars=round(sent.dollars, 9),
            daily_tokens=engine.vector_source.terms.daily_tokens if engine.vector_source.terms else 0,
        ),
        notice=unreachable_notice(report.storage),
    )


STATS = operation("stats", _stats, reads=True)
