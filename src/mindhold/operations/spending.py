"""What models have cost."""

from __future__ import annotations

from pydantic import Field

from mindhold.engine.ledger import KEPT, Spend
from mindhold.engine.spending import Share, spending
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class SpendInput(Input):
    """Of how many days (UTC), today's included."""

    days: int = Field(default=7, ge=1, le=KEPT.days)


class ShareView(Output):
    """What a day, a purpose or a model has of it. `unpriced` calls are not in the dollars: nobody here knows their price."""

    name: str
    calls: int
    failed: int
    tokens_in: int
    tokens_out: int
    dollars: float
    unpriced: int
    memories: list[str]  # that the calls were about, or led to

    @classmethod
    def of(cls, share: Share) -> ShareView:
        """As it is told."""
        spent = share.spend
        return cls(
            name=share.name,
            calls=spent.calls,
            failed=spent.failed,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            dollars=round(spent.dollars, 9),
            unpriced=spent.unpriced,
            memories=list(share.memories),
        )


class BudgetView(Output):
    """What language models were asked for today (UTC), and what is left; no limit where `daily_dollars` is 0."""

    tokens: int
    daily_tokens: int
    tokens_left: int
    dollars: float
    daily_dollars: float
    dollars_left: float | None


class SpendResult(Output):
    """The newest day first; purposes and models with the dearest first."""

    days: list[ShareView]
    purposes: list[ShareView]
    models: list[ShareView]
    total: ShareView
    today: BudgetView


async def _spend(call: Call, given: SpendInput) -> SpendResult:
    found = await spending(call.engine, days=given.days)
    return SpendResult(
        days=[ShareView.of(one) for one in found.days],
        purposes=[ShareView.of(one) for one in found.purposes],
        models=[ShareView.of(one) for one in found.models],
        total=ShareView.of(found.total),
        today=_budget(call, found.today),
    )


def _budget(call: Call, spent: Spend) -> BudgetView:
    policy = call.engine.policy
    left = max(0.0, policy.daily_dollars - spent.dollars) if policy.daily_dollars else None
    return BudgetView(
        tokens=spent.tokens,
        daily_tokens=policy.daily_tokens,
        tokens_left=max(0, policy.daily_tokens - spent.tokens),
        dollars=round(spent.dollars, 9),
        daily_dollars=policy.daily_dollars,
        dollars_left=None if left is None else round(left, 9),
    )


SPEND = Operation(
    "spend",
    "What models have cost, and for what.",
    SpendInput,
    SpendResult,
    _spend,
    Effect.READS,
    owner_only=True,
)
