"""`mindhold spend`: what models have cost, on what, and for which memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_desk
from mindhold.interfaces.cli.output import plural
from mindhold.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from mindhold.operations.spending import BudgetView, ShareView, SpendResult


@command("spend", examples=["mindhold spend", "mindhold spend --days 30", "mindhold spend --json"])
@click.option("--days", type=int, help="Of how many days, today's included (7; at most 90).")
@with_desk
async def spend(desk: Desk, /, *, days: int | None) -> None:
    """What models have cost: by day, by purpose and by model, and what is left today.

    Days change at midnight UTC. With --json the memories are named that each share was spent for.
    """
    result: SpendResult = await desk.run("spend", days=days)
    console = desk.console
    if console.json:
        console.document(result)
        return
    if result.days:
        for head, shares in (("day", result.days), ("purpose", result.purposes), ("model", result.models)):
            _table(desk, head, shares)
    else:
        console.line("No model was asked.")
    console.line(f"{console.style('left today', bold=True)} {_left(result.today)}")
    if result.total.unpriced:
        calls = plural(result.total.unpriced, "call")
        console.note(f"{calls} of unknown price: llm.price_in and llm.price_out say what a model costs.")


def _table(desk: Desk, head: str, shares: Sequence[ShareView]) -> None:
    heads = [head, "calls", "failed", "tokens in", "tokens out", "dollars", "memories"]
    desk.console.table(heads, [_row(one) for one in shares])
    desk.console.line()


def _row(one: ShareView) -> list[str]:
    counts = (one.calls, one.failed, one.tokens_in, one.tokens_out)
    dollars = f"{one.dollars:,.4f}" if one.dollars or one.unpriced < one.calls else "unknown"
    return [one.name, *(f"{count:,}" for count in counts), dollars, f"{len(one.memories):,}"]


def _left(today: BudgetView) -> str:
    tokens = f"{today.tokens_left:,} of {today.daily_tokens:,} tokens"
    if today.dollars_left is None:
        return tokens
    return f"{tokens}, ${today.dollars_left:,.2f} of ${today.daily_dollars:,.2f}"
