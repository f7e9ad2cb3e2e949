"""The ledger of model calls, the daily budget, and what models have cost by day, purpose and model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from mindhold.hooks.environment import OWN_CALL_MARK
from mindhold.model.errors import ModelError, ModelSpent, StoreError
from mindhold.model.job import Entry
from mindhold.model.tokens import count_tokens
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.llm import LanguageModel, ModelLevel, RetryingModel, first_answer, levels_of
from mindhold.ports.store import Clock, Entries

if TYPE_CHECKING:
    from mindhold.engine import Engine


LEDGER_NAMESPACE = "ledger:"  # followed by the day
KEPT = timedelta(days=90)
MOST_CALLS = 100_000
MOST_MEMORIES = 100  # memory ids in one line
LONGEST_NAME = 100
UNDER_WAY, OK, FAILED = "under way", "ok", "failed"
LANGUAGE, EMBEDDING, ESTIMATE = "language", "embedding", "estimate"  # kinds of lines
# Purposes of calls.
EXTRACT, CONDENSE_PURPOSE, ASK, JUDGE, REFLECT, CONTRADICTIONS, CHECK, HISTORY, SUMMARY, OTHER = (
    "extract",
    "condense",
    "ask",
    "judge",
    "reflect",
    "contradictions",
    "check",
    "history",
    "summary",
    "other",
)


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """Totals of calls. A running call counts with the most that it may cost, one without a price with nothing."""

    calls: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    unpriced: int = 0  # calls of models whose price is unknown

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One call in the ledger."""

    day: str
    key: str
    model: str
    purpose: str
    tokens_in: int
    tokens_out: int  # the maximum, until it is known
    dollars: float | None  # None: the price is unknown
    memories: tuple[str, ...] = ()
    outcome: str = UNDER_WAY


class Metered:
    """A language model, or several levels of fallback, whose calls are in the ledger and within the daily budget."""

    def __init__(self, engine: Engine, rungs: Sequence[ModelLevel], *, purpose: str) -> None:
        self._engine = engine
        self._rungs = rungs
        self._purpose = purpose
        self.name = rungs[0].model.name  # the model that answered last
        self.calls = 0  # calls that were sent
        self.line: LedgerEntry | None = None  # of the last answer

    async def complete(
        self, prompt: str, *, system: str, most_tokens: int, memories: Sequence[str] = ()
    ) -> str:
        """Return the model's answer; `memories` are those that the call is about.

        Raises ModelError, also if the budget is spent.
        """
        # By the mark capture recognises our own calls in other programs' logs.
        marked = f"{prompt}\n\n{OWN_CALL_MARK}"
        tokens_in = count_tokens(system) + count_tokens(marked)

        async def ask(rung: ModelLevel) -> str:
            most = LedgerEntry(
                day="",
                key="",
                model=rung.model.name[:LONGEST_NAME],
                purpose=self._purpose,
                tokens_in=tokens_in,
                tokens_out=most_tokens,
                dollars=None,
                memories=tuple(memories)[:MOST_MEMORIES],
            )
            attempts = _Attempts(self._engine, rung, _priced(most, rung))
            try:
                text = await _answer(rung.model, marked, system=system, most=most_tokens, attempts=attempts)
            finally:
                self.calls += attempts.sent
            self.name = rung.model.name
            self.line = await attempts.answered(count_tokens(text))
            return text

        return await first_answer(self._rungs, ask)


async def _answer(model: LanguageModel, prompt: str, *, system: str, most: int, attempts: _Attempts) -> str:
    if isinstance(model, RetryingModel):
        return await model.complete_metered(prompt, system=system, most_tokens=most, meter=attempts)
    await attempts.sending()
    try:
        return await model.complete(prompt, system=system, most_tokens=most)
    except ModelError as error:
        await attempts.failed(error)
        raise


class _Attempts:
    """The meter of one call: a ledger line for each attempt, which reserves its budget before it is sent."""

    def __init__(self, engine: Engine, rung: ModelLevel, most: LedgerEntry) -> None:
        self._engine = engine
        self._rung = rung
        self._most = most  # the most that one attempt may cost
        self._line: LedgerEntry | None = None  # of the running attempt
        self._counted = (0, 0)  # tokens by the service's count
        self.sent = 0

    async def sending(self) -> None:
        """Reserve the budget of an attempt. Raises ModelSpent."""
        line = replace(self._most, day=day_of(self._engine.clock()), key=self._engine.new_id())
        await self._reserve(line)
        self._line = line
        self.sent += 1

    async def failed(self, error: ModelError) -> None:
        """Record a failed attempt; with an unknown outcome it stays counted with the most that it may have cost."""
        line, self._line = self._line, None
        if line is None:
            return
        if error.unasked:
            self.sent -= 1
            await self._drop(line)
            return
        tokens_out = line.tokens_out if error.lost else 0
        await self._settle(_priced(replace(line, tokens_out=tokens_out, outcome=FAILED), self._rung))

    async def counted(self, *, sent: int, answered: int) -> None:
        """Note the service's token counts, which include hidden reasoning."""
        self._counted = (sent, answered)

    async def answered(self, tokens_out: int) -> LedgerEntry | None:
        """Settle and return the line of the successful attempt; the larger of the service's and our count is used."""
        if self._line is None:
            return None
        service_in, service_out = self._counted
        tokens_in = max(self._line.tokens_in, service_in)
        line = replace(self._line, tokens_in=tokens_in, tokens_out=max(tokens_out, service_out), outcome=OK)
        line = _priced(line, self._rung)
        await self._settle(line)
        return line

    async def _reserve(self, line: LedgerEntry) -> None:
        """Write the line first, then count: concurrent calls then see each other."""
        engine, llm = self._engine, self._engine.settings.llm
        try:
            await _write(engine, line)
            refused = _over(await spent_today(engine), line, llm.daily_tokens, llm.daily_dollars)
            if refused is None:
                return
            await engine.ledger.drop_entry(LEDGER_NAMESPACE + line.day, line.key)
        except StoreError as error:
            raise ModelSpent(f"The ledger of language models can't be written: {error.message}") from error
        raise refused

    async def _settle(self, line: LedgerEntry) -> None:
        with suppress(StoreError):  # it then stays counted with the most that it may have cost
            await _write(self._engine, line)

    async def _drop(self, line: LedgerEntry) -> None:
        with suppress(StoreError):
            await self._engine.ledger.drop_entry(LEDGER_NAMESPACE + line.day, line.key)


def metered(engine: Engine, model: LanguageModel, *, purpose: str) -> Metered:
    """Return the model, limited to the daily budget."""
    return Metered(engine, levels_of(model), purpose=purpose)


async def note_estimate(engine: Engine, *, model: str, purpose: str, tokens_in: int) -> None:
    """Record the estimated tokens of another program's model call. It isn't in the budget; store errors are ignored."""
    now = engine.clock()
    value = {"kind": ESTIMATE, "model": model[:LONGEST_NAME], "purpose": purpose, "tokens_in": tokens_in}
    with suppress(StoreError):
        await engine.ledger.put_entry(
            Entry(
                LEDGER_NAMESPACE + day_of(now),
                engine.new_id(),
                value | {"tokens_out": 0, "outcome": OK},
                now,
                now + KEPT,
            )
        )


async def note_memories(engine: Engine, line: LedgerEntry | None, ids: Sequence[str]) -> None:
    """Add to a call's line the memories that it led to; store errors are ignored."""
    if line is None or not ids:
        return
    with suppress(StoreError):
        entry = await engine.ledger.entry(LEDGER_NAMESPACE + line.day, line.key, now=engine.clock())
        if entry is not None:
            memory_ids = list(dict.fromkeys((*entry.value.get("memories", ()), *ids)))[:MOST_MEMORIES]
            await engine.ledger.put_entry(replace(entry, value={**entry.value, "memories": memory_ids}))


async def spent_today(engine: Engine, kind: str = LANGUAGE) -> ModelSpend:
    """Return what everybody has spent since midnight UTC."""
    return await spent_on_day(engine.ledger, clock=engine.clock, kind=kind)


async def spent_on_day(ledger: Entries, *, clock: Clock, kind: str) -> ModelSpend:
    """Return what was spent on the clock's day."""
    lines = await ledger_entries(ledger, day_of(clock()), now=clock())
    return sum_entries(line for line in lines if line.get("kind", LANGUAGE) == kind)


async def ledger_entries(ledger: Entries, day: str, *, now: datetime) -> list[Mapping[str, Any]]:
    """Return all ledger lines of a day."""
    return [line.value for line in await ledger.entries(LEDGER_NAMESPACE + day, now=now, limit=MOST_CALLS)]


def sum_entries(lines: Iterable[Mapping[str, Any]]) -> ModelSpend:
    """Add up ledger lines; a language model's line is one call, a service's line holds many."""
    calls = failed = tokens_in = tokens_out = unpriced = 0
    dollars = 0.0
    for line in lines:
        calls += line.get("calls", 1)
        failed += line.get("failed", line["outcome"] == FAILED)
        tokens_in += line["tokens_in"]
        tokens_out += line["tokens_out"]
        dollars += line.get("dollars") or 0.0
        unpriced += "dollars" in line and line["dollars"] is None
    return ModelSpend(calls, failed, tokens_in, tokens_out, dollars, unpriced)


def day_of(moment: datetime) -> str:
    """Return the day in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _priced(line: LedgerEntry, rung: ModelLevel) -> LedgerEntry:
    tariff = rung.tariff
    return line if tariff is None else replace(line, dollars=tariff.dollars(line.tokens_in, line.tokens_out))


def _over(spent: ModelSpend, line: LedgerEntry, tokens: int, dollars: float) -> ModelSpent | None:
    """Return why the call is over the budget; `spent` includes it already."""
    if spent.tokens > tokens:
        return ModelSpent(
            f"Today's {tokens:,} tokens for language models don't suffice for this call.",
            advice="Wait for tomorrow (UTC), or raise llm.daily_tokens.",
        )
    if dollars and line.dollars is None:
        return ModelSpent(
            f"What {line.model} costs is not known here, and llm.daily_dollars bounds what may be spent.",
            advice="Set llm.price_in and llm.price_out, or llm.daily_dollars to 0.",
        )
    if dollars and line.dollars and spent.dollars > dollars:  # calls without a cost may go on
        return ModelSpent(
            f"Today's ${dollars:,.2f} for language models don't suffice for this call.",
            advice="Wait for tomorrow (UTC), or raise llm.daily_dollars.",
        )
    return None


async def _write(engine: Engine, line: LedgerEntry) -> None:
    now = engine.clock()
    value = {
        "kind": LANGUAGE,
        "model": line.model,
        "purpose": line.purpose,
        "tokens_in": line.tokens_in,
        "tokens_out": line.tokens_out,
        "dollars": line.dollars,
        "memories": list(line.memories),
        "outcome": line.outcome,
    }
    await engine.ledger.put_entry(Entry(LEDGER_NAMESPACE + line.day, line.key, value, now, now + KEPT))


LedgerEntries = Sequence[Mapping[str, Any]]


def _purpose(line: Mapping[str, Any]) -> str:
    return EMBEDDING if line.get("kind") == EMBEDDING else str(line.get("purpose") or OTHER)


def _shares(lines: LedgerEntries, name_of: Callable[[Mapping[str, Any]], str]) -> list[ShareView]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[name_of(line)].append(line)
    shares = [ShareView.of(name, group) for name, group in groups.items()]
    return sorted(shares, key=lambda share: (-share.dollars, -share.tokens_in - share.tokens_out, share.name))


class SpendInput(Input):
    """Of how many days (UTC), today's included."""

    days: int = Field(default=7, ge=1, le=KEPT.days, description="How many days to look back.", examples=[7])


class ShareView(Output):
    """What a day, a purpose or a model has of it. `unpriced` calls are not in the dollars: nobody here knows their price."""

    name: str = Field(description="Its name.", examples=["2026-11-16"])
    calls: int = Field(examples=[4])
    failed: int = Field(description="How many failed.", examples=[0])
    tokens_in: int = Field(examples=[3100])
    tokens_out: int = Field(examples=[420])
    dollars: float = Field(examples=[0.0084])
    unpriced: int = Field(examples=[0])
    memories: list[str] = Field(
        description="Ids of memories.", examples=[["01m7gv42a3fzcy3gb19vmek4q7"]]
    )  # that the calls were about, or led to

    @classmethod
    def of(cls, name: str, lines: LedgerEntries) -> ShareView:
        """Add up ledger lines; each memory is named once."""
        spent = sum_entries(lines)
        memories = dict.fromkeys(memory_id for line in lines for memory_id in line.get("memories", ()))
        return cls(
            name=name, memories=list(memories), **asdict(replace(spent, dollars=round(spent.dollars, 9)))
        )


class BudgetView(Output):
    """What language models were asked for today (UTC), and what is left; no limit where `daily_dollars` is 0."""

    tokens: int = Field(description="Number of tokens.", examples=[3520])
    daily_tokens: int = Field(examples=[100000])
    tokens_left: int = Field(examples=[96480])
    dollars: float = Field(examples=[0.0084])
    daily_dollars: float = Field(examples=[0.0])
    dollars_left: float | None = Field(examples=[None])


class SpendResult(Output):
    """The newest day first; purposes and models with the dearest first."""

    days: list[ShareView] = Field(description="One entry per day.")
    purposes: list[ShareView] = Field(examples=[[{"name": "summary"}]])
    models: list[ShareView] = Field(examples=[[{"name": "claude-haiku"}]])
    total: ShareView = Field(description="The sum of all.", examples=[{"name": ""}])
    today: BudgetView


async def _spend(context: Context, request: SpendInput) -> SpendResult:
    """What models have cost, and for what."""
    engine, now = context.engine, context.engine.clock()
    by_day: dict[str, LedgerEntries] = {}
    for back in range(request.days):
        day = day_of(now - timedelta(days=back))
        by_day[day] = await ledger_entries(engine.ledger, day, now=now)
    lines = [line for of_day in by_day.values() for line in of_day]
    today = sum_entries(line for line in by_day[day_of(now)] if line.get("kind", LANGUAGE) == LANGUAGE)
    llm = engine.settings.llm
    return SpendResult(
        days=[ShareView.of(day, of_day) for day, of_day in by_day.items() if of_day],
        purposes=_shares(lines, _purpose),
        models=_shares(lines, lambda line: str(line["model"])),
        total=ShareView.of("total", lines),
        today=BudgetView(
            tokens=today.tokens,
            daily_tokens=llm.daily_tokens,
            tokens_left=max(0, llm.daily_tokens - today.tokens),
            dollars=round(today.dollars, 9),
            daily_dollars=llm.daily_dollars,
            dollars_left=round(max(0.0, llm.daily_dollars - today.dollars), 9) if llm.daily_dollars else None,
        ),
    )


SPEND = operation("spend", _spend, reads=True, owner_only=True)
