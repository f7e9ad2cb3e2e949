"""`mindhold stats`, `feedback` and `spend`: counts, ratings of the tools, and the cost of models."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import local_time, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.memories.feedback import ToolReportView
    from mindhold.memories.model_budget import BudgetView, ShareView


@command(
    "feedback",
    remote=True,
    examples=[
        "mindhold feedback",
        "mindhold feedback recall --relevant --sufficient",
        'mindhold feedback recall --irrelevant --suggestion "Prefer the newest" --memory 01jxq3k',
    ],
)
@click.argument("tool", required=False)
@click.option("--relevant/--irrelevant", default=None, help="Whether the answer fitted the question.")
@click.option(
    "--sufficient/--insufficient", default=None, help="Whether it was enough (default: if relevant)."
)
@click.option("--suggestion", metavar="TEXT", help="What would have been better.")
@click.option("--context", metavar="TEXT", help="What it was needed for.")
@words("--memory", "memories", metavar="ID", help="The memories that you rate.")
@with_open_session
async def feedback(
    session: OpenSession,
    /,
    *,
    tool: str | None,
    relevant: bool | None,
    sufficient: bool | None,
    memories: tuple[str, ...],
    **fields: Any,
) -> None:
    """Show how callers rate the tools, or rate a TOOL."""
    from mindhold.memories.feedback import FEEDBACK
    from mindhold.memories.filters import SHOW

    if tool is None:
        if relevant is not None or sufficient is not None or memories or any(fields.values()):
            raise click.UsageError("Name the TOOL that it is about.")
        await _report(session)
        return
    if relevant is None:
        raise click.UsageError("Say --relevant or --irrelevant.")
    memory_ids = [(await session.run(SHOW, id=one)).memory.id for one in memories]
    result = await session.run(
        FEEDBACK,
        tool_name=tool,
        relevant=relevant,
        sufficient=relevant if sufficient is None else sufficient,
        memories=memory_ids or None,
        **fields,
    )
    if not session.console.as_json(result):
        more = "more" if relevant else "less"
        moved = f" {result.rated} of the memories count for {more} now." if result.rated else ""
        session.console.line(f"Noted.{moved}")


@command("stats", remote=True, examples=["mindhold stats", "mindhold stats --json"])
@with_open_session
async def stats(session: OpenSession, /) -> None:
    """Count the memories by kind, tier, scope and status.

    Links, conversations, storage and calls of models are counted too.
    """
    from mindhold.memories.stats import STATS

    result = await session.run(STATS)
    console = session.console
    if console.as_json(result):
        return
    console.note(result.notice)
    spent, tasks = result.models_today, result.tasks
    ratings = [
        f"{name} {verdicts.relevant} of {verdicts.count} relevant"
        for name, verdicts in result.feedback.items()
    ]
    facts = [
        ("memories", f"{result.total:,}"),
        ("by kind", _format_counts(result.by_kind)),
        ("by tier", _format_counts(result.by_tier)),
        ("by scope", _format_counts(result.by_scope)),
        ("by status", _format_counts(result.by_status)),
        ("by agent", _format_counts(result.by_agent)),
        ("with vectors", f"{result.embedded:,} ({result.embedded_ratio:.0%})"),
        ("links", f"{result.links:,}"),
        ("conversations", f"{result.conversations:,}"),
        ("feedback", ", ".join(ratings)),
        ("tasks", f"{tasks.succeeded} of {tasks.count} succeeded" if tasks.count else ""),
        ("consolidated", _time_or_never(session, result.last_consolidated)),
        ("last backup", _time_or_never(session, result.last_backup)),
        ("size", f"{result.megabytes:g} MB"),
        ("recall by", result.rung),
        (
            "models today",
            f"{spent.calls} calls, {spent.tokens_in + spent.tokens_out:,} tokens" if spent.calls else "",
        ),
    ]
    console.facts([(name, one_line(value, most=400)) for name, value in facts], width=14)


def _time_or_never(session: OpenSession, moment: datetime | None) -> str:
    return local_time(moment, session.zone) if moment else "never"


async def _report(session: OpenSession) -> None:
    from mindhold.memories.feedback import FEEDBACK_REPORT

    result = await session.run(FEEDBACK_REPORT)
    console = session.console
    if console.as_json(result):
        return
    if not result.tools and not result.tasks.count:
        console.line("Nobody has said anything yet.")
        return
    if result.tools:
        heads = ["tool", "verdicts", "relevant", "sufficient", "served lately", "before", "trend"]
        console.table(heads, [[name, *_row(report)] for name, report in result.tools.items()])
    for name, report in result.tools.items():
        for remark in report.suggestions:
            console.line(f"  {one_line(name, most=40)}: {one_line(remark.text, most=200)}")
    tasks = result.tasks
    if tasks.count:
        console.line(f"\n{tasks.succeeded} of {tasks.count} tasks succeeded.")
        for verb, points in (("liked", tasks.highlights), ("disliked", tasks.pain_points)):
            for point in points:
                console.line(f"  {verb}: {one_line(point, most=200)}")


def _row(report: ToolReportView) -> list[str]:
    verdicts = report.whole
    return [
        str(verdicts.count),
        f"{verdicts.relevant / verdicts.count:.0%}",
        f"{verdicts.sufficient / verdicts.count:.0%}",
        _share(report.lately.share),
        _share(report.before.share),
        "" if report.trend is None else f"{report.trend:+.0%}",
    ]


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _format_counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered)


@command(
    "spend", remote=True, examples=["mindhold spend", "mindhold spend --days 30", "mindhold spend --json"]
)
@click.option("--days", type=int, help="How many days, with today (default: 7, at most 90).")
@with_open_session
async def spend(session: OpenSession, /, *, days: int | None) -> None:
    """Show what models have cost, and what is left today.

    By day (UTC), purpose and model. --json adds the ids of the memories.
    """
    from mindhold.memories.model_budget import SPEND

    result = await session.run(SPEND, days=days)
    console = session.console
    if console.as_json(result):
        return
    if result.days:
        heads = ["calls", "failed", "tokens in", "tokens out", "dollars", "memories"]
        for head, shares in (("day", result.days), ("purpose", result.purposes), ("model", result.models)):
            console.table([head, *heads], [_spend_row(share) for share in shares])
            console.line()
    else:
        console.line("No model was asked.")
    console.line(f"{console.style('left today', bold=True)} {_format_budget(result.today)}")
    if result.total.unpriced:
        calls = plural(result.total.unpriced, "call")
        console.note(f"{calls} of unknown price: llm.price_in and llm.price_out say what a model costs.")


def _spend_row(share: ShareView) -> list[str]:
    counts = (share.calls, share.failed, share.tokens_in, share.tokens_out)
    dollars = f"{share.dollars:,.4f}" if share.dollars or share.unpriced < share.calls else "unknown"
    return [share.name, *(f"{count:,}" for count in counts), dollars, f"{len(share.memories):,}"]


def _format_budget(today: BudgetView) -> str:
    tokens = f"{today.tokens_left:,} of {today.daily_tokens:,} tokens"
    if today.dollars_left is None:
        return tokens
    return f"{tokens}, ${today.dollars_left:,.2f} of ${today.daily_dollars:,.2f}"
