"""What models were asked for: every call that may cost something is written down, and a day has a budget."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from recollect.engine.core import Engine
from recollect.model.entry import Entry
from recollect.model.errors import ModelError, StoreError
from recollect.model.tokens import count_tokens
from recollect.ports.clock import Clock
from recollect.ports.llm import LanguageModel
from recollect.ports.store import Entries

DRAWER = "ledger:"  # before the day
KEPT = timedelta(days=90)
MOST_CALLS = 100_000
LONGEST_NAME = 100
UNDER_WAY, OK, FAILED = "under way", "ok", "failed"
LANGUAGE, EMBEDDING = "language", "embedding"  # kinds of lines


@dataclass(frozen=True, slots=True)
class Spend:
    """The calls of one day. What is under way counts with all that it may still cost."""

    calls: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0

    @property
    def tokens(self) -> int:
        """Both ways together."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class _Line:
    """One call in the ledger."""

    day: str
    key: str
    model: str
    tokens_in: int
    tokens_out: int  # the most that there may be, until it is known
    outcome: str = UNDER_WAY


class Metered:
    """A language model whose calls are in the ledger and within the day's budget."""

    def __init__(self, engine: Engine, model: LanguageModel) -> None:
        self._engine = engine
        self._model = model

    @property
    def name(self) -> str:
        """The model's own."""
        return self._model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The answer's text. Raises ModelError, also when the day's tokens are spent or can't be counted."""
        asked = count_tokens(system) + count_tokens(prompt)
        engine = self._engine
        line = _Line(_today(engine), engine.new_id(), self.name[:LONGEST_NAME], asked, most_tokens)
        await self._reserve(line)
        try:
            text = await self._model.complete(prompt, system=system, most_tokens=most_tokens)
        except ModelError as error:
            if error.unasked:
                await self._drop(line)
            else:
                await self._settle(replace(line, tokens_out=0, outcome=FAILED))
            raise
        await self._settle(replace(line, tokens_out=count_tokens(text), outcome=OK))
        return text

    async def _reserve(self, line: _Line) -> None:
        """Written first and counted then, so that of calls at the same time none is overlooked."""
        engine, most = self._engine, self._engine.policy.daily_tokens
        try:
            await _write(engine, line)
            if (await spent_today(engine)).tokens <= most:
                return
            await engine.ledger.drop_entry(DRAWER + line.day, line.key)
        except StoreError as error:
            raise ModelError(f"The ledger of language models can't be written: {error.message}") from error
        raise ModelError(
            f"Today's {most:,} tokens for language models don't suffice for this call.",
            advice="Wait for tomorrow (UTC), or raise llm.daily_tokens.",
        )

    async def _settle(self, line: _Line) -> None:
        with suppress(StoreError):  # then it stays counted with the most that it may have cost
            await _write(self._engine, line)

    async def _drop(self, line: _Line) -> None:
        with suppress(StoreError):
            await self._engine.ledger.drop_entry(DRAWER + line.day, line.key)


def metered(engine: Engine, model: LanguageModel) -> Metered:
    """The model, within the day's budget."""
    return Metered(engine, model)


async def spent_today(engine: Engine, kind: str = LANGUAGE) -> Spend:
    """From midnight UTC on, by everybody."""
    return await spent_on_day(engine.ledger, clock=engine.clock, kind=kind)


async def spent_on_day(ledger: Entries, *, clock: Clock, kind: str) -> Spend:
    """On the clock's day. A line of a language model is one call; one of a service holds many."""
    now = clock()
    lines = [line.value for line in await ledger.entries(DRAWER + day_of(now), now=now, limit=MOST_CALLS)]
    lines = [line for line in lines if line.get("kind", LANGUAGE) == kind]
    return Spend(
        calls=sum(line.get("calls", 1) for line in lines),
        failed=sum(line.get("failed", line["outcome"] == FAILED) for line in lines),
        tokens_in=sum(line["tokens_in"] for line in lines),
        tokens_out=sum(line["tokens_out"] for line in lines),
        dollars=sum(line.get("dollars", 0.0) for line in lines),
    )


def day_of(moment: datetime) -> str:
    """Days change at midnight UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


async def _write(engine: Engine, line: _Line) -> None:
    now = engine.clock()
    value = {
        "kind": LANGUAGE,
        "model": line.model,
        "tokens_in": line.tokens_in,
        "tokens_out": line.tokens_out,
        "outcome": line.outcome,
    }
    await engine.ledger.put_entry(Entry(DRAWER + line.day, line.key, value, now, now + KEPT))


def _today(engine: Engine) -> str:
    return day_of(engine.clock())
