"""Retention: archives memories that are old, unused, repeated or beyond the size limit, each by its own rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nsmallest
from time import perf_counter
from typing import Any, Protocol

from mindhold.engine import Engine
from mindhold.lifecycle import duplicates, sweep
from mindhold.lifecycle.archive import archive
from mindhold.lifecycle.audit import RETENTION, AuditJournal
from mindhold.lifecycle.stages import (
    MOST_GONE,
    NOTHING,
    StageExample,
    StageLimits,
    StageResult,
    share_of_limits,
)
from mindhold.locks import claim
from mindhold.model.errors import Changed, ModelError, StoreAway
from mindhold.model.lifecycle import (
    PARTS_KEY,
    YOUNGEST,
    Fate,
    StorageUsage,
    is_message,
    is_summary_of_others,
    may_be_pruned,
    may_be_removed_alone,
    retention_key,
)
from mindhold.model.memory import ANY_STATUS, PART_KEY, Kind, Memory, Status
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import StoreFinding
from mindhold.text.noise import is_noise


class CoveredMessages(Protocol):
    """Which of these messages an active summary stands for."""

    def __call__(self, engine: Engine, ids: Sequence[str], /) -> Awaitable[AbstractSet[str]]: ...


class RecapWriter(Protocol):
    """Write the summary of a conversation, as far as there is none."""

    def __call__(self, engine: Engine, conversation: str, /, *, scope: str, agent: str) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class RecapPort:
    """Both; where nobody writes summaries, those that are there still count."""

    covering: CoveredMessages
    recap: RecapWriter | None = None


def default_recaps() -> RecapPort:
    """Those of the engine."""
    from mindhold.conversations.recap_creation import recap_conversation
    from mindhold.conversations.recap_records import covered_messages

    return RecapPort(covered_messages, recap_conversation)


async def covered_by_lineage(engine: Engine, ids: Sequence[str], /) -> set[str]:
    """By what each summary says that it was made of."""
    wanted = set(ids)
    made = await engine.store.derived_from(list(ids)) if ids else []
    return {
        source
        for one in made
        if one.status is Status.ACTIVE and is_summary_of_others(one)
        for source in one.merged_from
        if source in wanted
    }


MEGABYTE = 1_000_000
WHAT = "room for memories"


async def room_of(engine: Engine) -> StorageUsage:
    """Of everybody's memories. Cheap."""
    chosen = engine.settings.retention
    return StorageUsage(
        items=await engine.store.count(Filter(viewer="system")),
        all_items=await engine.store.count(Filter(viewer="system", statuses=ANY_STATUS)),
        bytes_used=(await engine.store.facts()).bytes_used,
        most_items=chosen.most_items,
        most_bytes=chosen.most_megabytes * MEGABYTE,
    )


async def room_finding(engine: Engine) -> StoreFinding:
    """Healthy where no limit is near, or where upkeep will see to it."""
    try:
        room = await room_of(engine)
    except StoreAway as error:  # a project's own store: how much is in it can't be told now
        return StoreFinding(WHAT, True, f"not known: {error.message}")
    return StoreFinding(
        WHAT, not room.tight, _counted_room(room), advice=_advice(engine) if room.tight else ""
    )


async def room_notice(engine: Engine) -> str:
    """For a status: empty where there is room."""
    found = await room_finding(engine)
    return "" if found.healthy else f"Little room is left: {found.detail}. {found.advice}"


def _counted_room(room: StorageUsage) -> str:
    items = f"{room.items:,}" + (f" of {room.most_items:,}" if room.most_items else "") + " active memories"
    megabytes = f"{room.active_bytes / MEGABYTE:,.0f}"
    if room.most_bytes:
        megabytes += f" of {room.most_bytes / MEGABYTE:,.0f}"
    beside = room.bytes_used - room.active_bytes
    told = f", {beside / MEGABYTE:,.0f} more in the archive" if beside >= MEGABYTE else ""
    return f"{items}, {megabytes} MB{told}"


def _advice(engine: Engine) -> str:
    if not engine.settings.retention.prunes:
        return "Nothing goes by itself (retention.level is keep-all): retire a scope, or allow more (retention.most_items, most_megabytes)."
    return (
        "Upkeep condenses and archives what it may (`mindhold consolidate`). Where that isn't enough the rest is kept "
        "on purpose: retire a scope, or allow more (retention.most_items, most_megabytes)."
    )


RETENTION_STAGE = "retention"


async def archive_by_rule(
    engine: Engine, memories: Sequence[Memory], *, why: str, within: StageLimits, read: datetime
) -> list[StageExample]:
    """Archive these; those that went. What somebody used or changed meanwhile stays."""
    leaving = {memory.id: (memory, _away(memory, read)) for memory in memories}
    told = [StageExample(name, Fate.ARCHIVED, why) for name in leaving]
    if within.dry or not told:
        return told
    await within.before(told)
    gone = await archive(engine, leaving, read=read)
    return [one for one in told if one.memory_id in gone]


async def with_parts(engine: Engine, messages: Sequence[Memory], *, now: datetime) -> list[Memory]:
    """Long messages go whole, or not at all: with one that has to stay, all of it stays."""
    whole: list[Memory] = []
    for message in messages:
        others = await _parts(engine, message) if PARTS_KEY in message.metadata else []
        if all(may_be_pruned(part, now) for part in others):
            whole += [message, *others]
    return whole


def staged(told: Sequence[StageExample], words: str, *, looked: int = 0, more: bool = False) -> StageResult:
    """What a step did, in words."""
    counts = {str(Fate.ARCHIVED): len(told)} if told else {}
    return StageResult(
        RETENTION_STAGE,
        len(told),
        words if told else NOTHING,
        more=more,
        looked=looked,
        examples=tuple(told),
        counts=counts,
    )


async def _parts(engine: Engine, message: Memory) -> list[Memory]:
    """The later ones stand at the place of the first."""
    place = message.provenance.position
    if place is None:
        return []
    where = Filter(
        viewer="system",
        scopes=(message.scope,),
        conversation=message.provenance.conversation,
        positions=(place, place),
    )
    found = await engine.store.find(where, limit=int(message.metadata[PARTS_KEY]) + 50)
    return [one for one in found if PART_KEY in one.metadata and one.agent == message.agent]


def _away(memory: Memory, read: datetime) -> Memory:
    return replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=read)


REPEATED_REASON = "an acknowledgement that says nothing"


def says_nothing(message: Memory) -> bool:
    """ "ok" and "thanks" are kept in a log as they were said, and not for ever: no summary has to stand for them."""
    return is_noise(message.content)


async def merge_repeated(engine: Engine, within: StageLimits, _recaps: RecapPort) -> StageResult:
    """As a consolidation does: a number, name, date or negation that differs makes another fact."""
    stage = await duplicates.run_duplicates(engine, within)
    count = stage.changed
    return replace(stage, detail=f"merged {count} that said the same" if count else NOTHING)


ASKED = "retention:asked"  # the cursor that says up to when summaries were asked for
WHERE = "retention:talk"  # the one that says where a run broke off
COVERED = "older than {days} days, and a summary stands for it"


async def archive_old_messages(engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """Conversations without a summary get one first, the oldest first."""
    talk = OldMessages(engine, within, recaps, after=engine.settings.retention.message_window, goes_on=True)
    told = [one async for some in talk.leaving() for one in some]
    empty = sum(one.why == REPEATED_REASON for one in told)
    words = ", ".join(
        filter(
            None,
            (
                _count_text(len(told) - empty, "that summaries stand for"),
                _count_text(empty, "that say nothing" if empty > 1 else "that says nothing"),
            ),
        )
    )
    return staged(told, words, looked=talk.looked, more=talk.more)


def _count_text(count: int, which: str) -> str:
    return f"archived {count} message{'s' if count > 1 else ''} {which}" if count else ""


class OldMessages:
    """Messages at rest for so long, oldest first, a batch at a time; about so many of them at most.

    Where the time was up, the next one that `goes_on` begins there.
    """

    def __init__(
        self,
        engine: Engine,
        within: StageLimits,
        recaps: RecapPort,
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

    async def leaving(self) -> AsyncIterator[list[StageExample]]:
        """Those that went, batch by batch."""
        async for page, ended in self._pages():
            now = self._engine.clock()
            ready = [one for one in page if may_be_pruned(one, now, after=self._after)]
            empty = [one for one in ready if says_nothing(one)][: self._left]
            told = await archive_by_rule(
                self._engine, empty, why=REPEATED_REASON, within=self._within, read=now
            )
            rest = [one for one in ready if not says_nothing(one)]
            covered = await self._covered(rest)
            chosen = [one for one in rest if one.id in covered][: max(0, self._left - len(told))]
            whole = await with_parts(self._engine, chosen, now=now)
            why = COVERED.format(days=self._after.days)
            told += await archive_by_rule(self._engine, whole, why=why, within=self._within, read=now)
            yield told
            self._left -= len(told)
            if self._left <= 0 or self._within.over:
                self.more = True
                await self._note(ended)
                return
        await self._note(None)

    async def _pages(self) -> AsyncIterator[tuple[list[Memory], PagePosition]]:
        """The first parts of messages, and where the page ended."""
        where = Filter(viewer="system", kinds=(Kind.EPISODE,), until=self._engine.clock() - self._after)
        after = _spot(await self._engine.store.cursor(WHERE)) if self._goes_on else None
        while page := await self._engine.store.find(
            where, order=Order.OLDEST, limit=self._within.batch, after=after
        ):
            after = PagePosition.of(page[-1], Order.OLDEST)
            self.looked += len(page)
            yield [one for one in page if is_message(one) and PART_KEY not in one.metadata], after

    async def _note(self, ended: PagePosition | None) -> None:
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


def _spot(noted: str | None) -> PagePosition | None:
    if noted is None:
        return None
    moment, _, name = noted.partition(" ")
    return PagePosition(datetime.fromisoformat(moment), name)


async def archive_unused(engine: Engine, within: StageLimits, _recaps: RecapPort) -> StageResult:
    """Of that which is due; what a consolidation has done already is done."""
    stage = await sweep.run_expiry(engine, within)
    archived, erased = stage.counts.get(Fate.ARCHIVED, 0), stage.counts.get(Fate.ERASED, 0)
    said = [f"archived {archived} that nobody used"] if archived else []
    if erased:
        said.append(f"removed {erased} whose time in the archive was over, to a file in backups/")
    return replace(stage, detail="; ".join(said) or NOTHING)


MOST_AT_ONCE = 10_000
SIZE_REASON = "there is little room, and of all it was worth least"


async def make_room(engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """Where 90 % of a limit is taken: until 80 % is, or nothing is left that may go."""
    room = await room_of(engine)
    wanted = room.to_free()
    if not wanted:
        return staged([], "")
    talk = OldMessages(engine, within, recaps, after=YOUNGEST, most=wanted)
    told = [one async for some in talk.leaving() for one in some]
    least, looked, more = await _least_put_away(engine, within, wanted - len(told), besides=told)
    told += least
    words = f"archived {len(told)} to make room ({_why(room)})" if told else ""
    return staged(told, words, looked=talk.looked + looked, more=more or within.over)


async def _least_put_away(
    engine: Engine, within: StageLimits, wanted: int, *, besides: Sequence[StageExample]
) -> tuple[list[StageExample], int, bool]:
    """The least valuable of what may go alone; how many were looked at, and whether the time was up before."""
    if wanted <= 0:
        return [], 0, False
    gone = {one.memory_id for one in besides}  # in a dry run they are there still
    least, looked = await _least(engine, min(wanted, MOST_AT_ONCE), besides=gone)
    told: list[StageExample] = []
    for first in range(0, len(least), within.batch):
        if first and within.over:
            return told, looked, True
        some = least[first : first + within.batch]
        told += await archive_by_rule(engine, some, why=SIZE_REASON, within=within, read=engine.clock())
    return told, looked, False


async def _least(engine: Engine, wanted: int, *, besides: set[str]) -> tuple[list[Memory], int]:
    """A batch at a time, so that there is never more than twice as much in memory as is wanted."""
    least: list[Memory] = []
    looked = 0
    async for batch in engine.store.scan(Filter(viewer="system")):
        now = engine.clock()
        looked += len(batch)
        ready = [
            one
            for one in batch
            if one.id not in besides and may_be_removed_alone(one) and may_be_pruned(one, now)
        ]
        least = nsmallest(wanted, [*least, *ready], key=retention_key)
    return least, looked


def _why(room: StorageUsage) -> str:
    return f"{room.fullest:.0%} of what is allowed was taken"


RETENTION_STEP = RETENTION
KEPT_ALL = "retention.level is keep-all: nothing goes by itself"
Step = Callable[[Engine, StageLimits, RecapPort], Awaitable[StageResult]]
STEPS: tuple[Step, ...] = (archive_old_messages, merge_repeated, archive_unused, make_room)
OF_LIFE: tuple[Step, ...] = (merge_repeated, archive_unused)  # what a consolidation does as well


async def run_retention(
    engine: Engine, within: StageLimits, *, recaps: RecapPort | None = None, consolidated: bool = False
) -> StageResult:
    """All that retention asks for now; run again at once it does nothing. Of two at once one does it.

    `consolidated`: a consolidation has just done its part. What goes is in the audit trail before it goes. Raises the
    store's errors.
    """
    if not engine.settings.retention.prunes:
        return StageResult(RETENTION_STEP, 0, KEPT_ALL)
    known = recaps or default_recaps()
    steps = [step for step in STEPS if not (consolidated and step in OF_LIFE)]
    if within.dry:
        return _together([await step(engine, within, known) for step in steps])
    async with claim(engine, RETENTION_STEP) as mine:
        if not mine:
            return StageResult(RETENTION_STEP, 0, "another process is at it")
        journal = AuditJournal(engine, RETENTION)
        done: list[StageResult] = []
        noted = replace(within, before=journal.before)
        for number, step in enumerate(steps):
            if journal.full:
                done.append(StageResult(RETENTION_STEP, 0, "", more=True))
                break
            done.append(
                await _stepped(step, engine, share_of_limits(noted, 1 / (len(steps) - number)), known)
            )
        whole = _together(done)
        operations = [stage.detail for stage in done if stage.changed]
        await journal.close(whole.examples, operations=operations, counts=whole.counts)
    return whole


async def _stepped(step: Step, engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """A model that fails keeps no other step from its work."""
    begun = perf_counter()
    try:
        stage = await step(engine, within, recaps)
    except ModelError as error:
        stage = StageResult(RETENTION_STEP, 0, f"failed: {error.message}")
    return replace(stage, seconds=perf_counter() - begun)


def _together(done: list[StageResult]) -> StageResult:
    """`detail` has what each step did, by semicolons."""
    counts = sum((Counter(stage.counts) for stage in done), Counter[str]())
    return StageResult(
        RETENTION_STEP,
        changed=sum(stage.changed for stage in done),
        detail="; ".join(stage.detail for stage in done if stage.detail and stage.detail != NOTHING)
        or NOTHING,
        seconds=sum(stage.seconds for stage in done),
        more=any(stage.more for stage in done),
        looked=sum(stage.looked for stage in done),
        examples=tuple(told for stage in done for told in stage.examples),
        counts=dict(counts),
    )
