"""By time: messages that are older than the window go once a summary stands for them, and never before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from mindhold.engine.consolidate.stage import MOST_GONE, Bounds, Stage, Told
from mindhold.engine.core import Engine
from mindhold.engine.retention.away import put_away, staged, with_parts
from mindhold.engine.retention.noise import WHY as SAYS_NOTHING
from mindhold.engine.retention.noise import says_nothing
from mindhold.engine.retention.recapping import Recaps
from mindhold.model.errors import Changed
from mindhold.model.memory import PART, Kind, Memory
from mindhold.model.query import Filter, Order, Spot
from mindhold.model.retention import is_message, may_go, message_window

ASKED = "retention:asked"  # the cursor that says up to when summaries were asked for
WHERE = "retention:talk"  # the one that says where a run broke off
COVERED = "older than {days} days, and a summary stands for it"


async def put_old_talk_away(engine: Engine, within: Bounds, recaps: Recaps) -> Stage:
    """Conversations without a summary get one first, the oldest first."""
    talk = OldTalk(engine, within, recaps, after=message_window(engine.policy.retention), goes_on=True)
    told = [one async for some in talk.leaving() for one in some]
    empty = sum(one.why == SAYS_NOTHING for one in told)
    words = ", ".join(
        filter(
            None,
            (
                _counted(len(told) - empty, "that summaries stand for"),
                _counted(empty, "that say nothing" if empty > 1 else "that says nothing"),
            ),
        )
    )
    return staged(told, words, looked=talk.looked, more=talk.more)


def _counted(count: int, which: str) -> str:
    return f"archived {count} message{'s' if count > 1 else ''} {which}" if count else ""


class OldTalk:
    """Messages at rest for so long, oldest first, a batch at a time; about so many of them at most.

    Where the time was up, the next one that `goes_on` begins there.
    """

    def __init__(
        self,
        engine: Engine,
        within: Bounds,
        recaps: Recaps,
        *,
        after: timedelta,
        most: int = MOST_GONE,
        goes_on: bool = False,
    ) -> None:
        self._engine = engine
        self._within = within
        self._recaps = recaps
        self._after = after
        self._left = most
        self._goes_on = goes_on and not within.dry
        self._asked: set[tuple[str, str, str]] = set()  # conversations that a summary was asked of
        self.looked = 0
        self.more = False

    async def leaving(self) -> AsyncIterator[list[Told]]:
        """Those that went, batch by batch."""
        async for page, ended in self._pages():
            now = self._engine.clock()
            ready = [one for one in page if may_go(one, now, after=self._after)]
            empty = [one for one in ready if says_nothing(one)][: self._left]
            told = await put_away(self._engine, empty, why=SAYS_NOTHING, within=self._within, read=now)
            rest = [one for one in ready if not says_nothing(one)]
            covered = await self._covered(rest)
            chosen = [one for one in rest if one.id in covered][: max(0, self._left - len(told))]
            whole = await with_parts(self._engine, chosen, now=now)
            why = COVERED.format(days=self._after.days)
            told += await put_away(self._engine, whole, why=why, within=self._within, read=now)
            yield told
            self._left -= len(told)
            if self._left <= 0 or self._within.over:
                self.more = True
                await self._note(ended)
                return
        await self._note(None)

    async def _pages(self) -> AsyncIterator[tuple[list[Memory], Spot]]:
        """The first parts of messages, and where the page ended."""
        where = Filter(viewer="system", kinds=(Kind.EPISODE,), until=self._engine.clock() - self._after)
        after = _spot(await self._engine.store.cursor(WHERE)) if self._goes_on else None
        while page := await self._engine.store.find(
            where, order=Order.OLDEST, limit=self._within.batch, after=after
        ):
            after = Spot.of(page[-1], Order.OLDEST)
            self.looked += len(page)
            yield [one for one in page if is_message(one) and PART not in one.metadata], after

    async def _note(self, ended: Spot | None) -> None:
        if self._goes_on:
            noted = (
                f"{ended.value.isoformat()} {ended.id}"
                if ended and isinstance(ended.value, datetime)
                else None
            )
            await self._engine.store.set_cursor(WHERE, noted)

    async def _covered(self, messages: Sequence[Memory]) -> set[str]:
        ids = [one.id for one in messages]
        covered = set(await self._recaps.covering(self._engine, ids)) if ids else set()
        bare = [one for one in messages if one.id not in covered]
        if not bare or not await self._recapped(bare):
            return covered
        return set(await self._recaps.covering(self._engine, ids))

    async def _recapped(self, messages: Sequence[Memory]) -> bool:
        """Whether a summary was asked for: once of each conversation that came of age, and not in a dry run.

        Of what is too short to be told in short there never is one: nobody asks for it every day.
        """
        if self._recaps.recap is None or self._within.dry:
            return False
        noted = await self._engine.store.cursor(ASKED)
        since = datetime.fromisoformat(noted) if noted else None
        fresh = [one for one in messages if since is None or one.occurred > since]
        for one in fresh:
            key = (one.scope, one.agent, one.provenance.conversation or "")
            if key in self._asked:
                continue
            self._asked.add(key)
            scope, agent, conversation = key
            with suppress(
                Changed
            ):  # somebody took messages away meanwhile: it is written without them another time
                await self._recaps.recap(self._engine, conversation, scope=scope, agent=agent)
        if fresh:
            await self._engine.store.set_cursor(ASKED, max(one.occurred for one in fresh).isoformat())
        return bool(fresh)


def _spot(noted: str | None) -> Spot | None:
    if noted is None:
        return None
    moment, _, name = noted.partition(" ")
    return Spot(datetime.fromisoformat(moment), name)
