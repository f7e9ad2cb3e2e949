"""Five years of daily use by a clock that moves: what pruning leaves, beside a twin of the same life that keeps all.

Each day has a conversation, some notes, now and then a change of the profile, and questions about things that were told months or
years ago. Every night has its maintenance. In the end all that was ever asked for is asked once more.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import texts
from benchmarks.environment import CACHE, size_on_disk
from benchmarks.report import spread
from benchmarks.served import MODEL, place_model

from mindhold.app.application import App, open_app
from mindhold.contracts.mcp.tools import tools_of
from mindhold.engine import UseCounter
from mindhold.memories.stats import STATS
from mindhold.model.memory import IdMaker
from mindhold.operation_index import operation
from mindhold.settings.loader import load_settings

DAY = timedelta(days=1)
FIRST = datetime(2030, 1, 1, 8, tzinfo=UTC)
YEARS = 5
BEST = 5
COLOURS = "blue, green, ochre, crimson, violet, silver".split(", ")
_TOOLS = {tool.name: tool for tool in tools_of(["assistant"])}
_BY = ("note", "message")


@dataclass(frozen=True, slots=True)
class Pace:
    """One day in so many is lived; what it has."""

    every: int = 1
    messages: int = 6
    notes: int = 2
    facts: int = 300  # in all the years


QUICK = Pace(every=10, messages=4, notes=1, facts=80)


@dataclass(slots=True)
class Fact:
    """Something that is told once and asked for now and then."""

    told: str
    question: str
    answer: str
    born: int  # the day
    gap: int  # days between two questions
    by: str
    asked: int = 0

    def due(self, day: int) -> bool:
        return day >= self.born + (self.asked + 1) * self.gap


@dataclass(slots=True)
class Calendar:
    """A clock that goes when it is told to."""

    now: datetime = FIRST

    def __call__(self) -> datetime:
        return self.now


@dataclass(slots=True)
class Life:
    """One store, and the time that is spent on it."""

    name: str
    app: App
    folder: Path
    nights: list[float] = field(default_factory=list)
    asking: list[float] = field(default_factory=list)

    async def tell(self, content: str, **filed: Any) -> None:
        await self._use("store_memory", content=content, **filed)

    async def ask(self, fact: Fact) -> bool:
        begun = time.perf_counter()
        answer = await self._use("retrieve_memory", query=fact.question, top_k=BEST)
        self.asking.append((time.perf_counter() - begun) * 1e3)
        return any(fact.answer in one["text"] for one in answer["results"])

    async def sleep(self) -> None:
        begun = time.perf_counter()
        await self.app.engine.use_counter.flush()
        nightly = operation("maintain")
        await self.app.run(nightly, nightly.takes(backup=False))
        self.nights.append(time.perf_counter() - begun)

    async def _use(self, name: str, **arguments: Any) -> dict[str, Any]:
        tool = _TOOLS[name]
        request = tool.request(arguments)
        return tool.answer(await self.app.run(request.operation, request.given))


async def five_years(pace: Pace) -> dict[str, Any]:
    """What became of both."""
    folder = CACHE / "years"
    shutil.rmtree(folder, ignore_errors=True)
    begun, calendar = time.monotonic(), Calendar()
    facts = list(_facts(pace))
    async with AsyncExitStack() as open_ones:
        lives = [
            await _life(open_ones, folder / level, level, calendar) for level in ("moderate", "keep-all")
        ]
        for day in range(0, YEARS * 365, pace.every):
            calendar.now = FIRST + day * DAY
            await _lived(lives, facts, day, pace, calendar)
            if day // pace.every % max(1, 180 // pace.every) == 0:
                print(f"\r  year {day / 365:.1f} of {YEARS}", end="", flush=True)
        print()
        calendar.now += DAY
        used = [fact for fact in facts if fact.asked]
        found = {life.name: [await life.ask(fact) for fact in used] for life in lives}
        figures = {life.name: await _figures(life, found[life.name]) for life in lives}
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "lives": figures,
        "asked_for": len(used),
        "ratio": _ratio(found["moderate"], found["keep-all"]),
        "by": {
            by: _ratio(
                *(
                    [hit for hit, fact in zip(found[name], used, strict=True) if fact.by == by]
                    for name in found
                )
            )
            for by in _BY
        },
        "days": len(range(0, YEARS * 365, pace.every)),
        "seconds": time.monotonic() - begun,
    }


def _ratio(pruned: Sequence[bool], whole: Sequence[bool]) -> float:
    return sum(pruned) / max(sum(whole), 1)


def _facts(pace: Pace) -> Iterator[Fact]:
    draw = random.Random(f"facts {texts.VERSION}")
    pairs = [(who, thing) for who in texts.WORDS["who"] for thing in texts.WORDS["thing"]]
    # The last half year brings none, so that each is asked for at least once.
    days = (YEARS * 365 - 180) // pace.every
    for number, (who, thing) in enumerate(draw.sample(pairs, pace.facts)):
        shelf = f"{draw.choice(texts.WORDS['place'])}, number {number + 1_000}"
        yield Fact(
            told=f"The {thing} of {who} is kept in {shelf}.",
            question=f"where is the {thing} of {who}?",
            answer=shelf,
            born=draw.randrange(days) * pace.every,
            gap=draw.randint(40, 170),
            by=_BY[number % len(_BY)],
        )


async def _life(open_ones: AsyncExitStack, home: Path, level: str, calendar: Calendar) -> Life:
    place_model(home)
    given = {
        "home": home,
        "time_zone": "UTC",
        "embedding.model": MODEL,
        "store.durability": "normal",
        "retention.level": level,
        "maintenance.schedule": False,
    }
    app = await open_ones.enter_async_context(open_app(load_settings(given, environ={})))
    await app.engine.vector_source.embed(["the model is there before the first day"])
    chance = random.Random(7)
    engine = replace(
        app.engine,
        clock=calendar,
        new_id=IdMaker(calendar, chance.getrandbits),
        use_counter=UseCounter(app.engine.store, calendar),
    )
    return Life(level, replace(app, engine=engine), home)


async def _lived(
    lives: Sequence[Life], facts: Sequence[Fact], day: int, pace: Pace, calendar: Calendar
) -> None:
    """One day in both: what is told, what is asked, and the night."""
    morning = calendar.now
    sentences = [texts.sentence(day * 100 + number) for number in range(pace.messages + pace.notes)]
    told = [fact for fact in facts if fact.born == day]
    asked = [fact for fact in facts if fact.born < day and fact.due(day)]
    for life in lives:
        calendar.now = morning
        said = [*sentences[: pace.messages], *(fact.told for fact in told if fact.by == "message")]
        for number, sentence in enumerate(said):
            calendar.now += timedelta(minutes=2)
            speaker = "assistant" if number % 3 == 2 else "user"
            await life.tell(sentence, source="conversation", conversation_id=f"day-{day}", speaker=speaker)
        for note in [*sentences[pace.messages :], *(fact.told for fact in told if fact.by == "note")]:
            await life.tell(note)
        if day % 120 < pace.every:
            colour = COLOURS[day // 120 % len(COLOURS)]
            await life.tell(f"My favourite colour is {colour}.", source="user_profile")
        for fact in asked:
            await life.ask(fact)
        calendar.now = morning + timedelta(hours=19)
        await life.sleep()
    for fact in asked:
        fact.asked += 1


async def _figures(life: Life, found: Sequence[bool]) -> dict[str, Any]:
    told = await life.app.run(STATS, STATS.takes())
    await life.app.engine.store.optimise()
    return {
        "any@5": sum(found) / max(len(found), 1),
        "active": told.total,
        "by_status": told.by_status,
        "disk": size_on_disk(life.folder / "data"),
        "night": spread([one * 1e3 for one in life.nights]),
        "ask": spread(life.asking[-200:]),
    }
