"""Retention: archives memories that are old, unused, repeated or beyond the size limit, each by its own rule."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import nsmallest
from time import perf_counter
from typing import Any, Protocol

from mindhold.engine import Engine
from mindhold.lifecycle.archive import archive, archived_copy
from mindhold.lifecycle.audit import RETENTION, AuditJournal
from mindhold.lifecycle.duplicates import run_duplicates
from mindhold.lifecycle.stage_report import (
    MAX_REMOVALS,
    NOTHING,
    StageExample,
    StageLimits,
    StageResult,
    combine_stages,
    share_of_limits,
)
from mindhold.lifecycle.sweep import sweep_by
from mindhold.locks import claim
from mindhold.model.errors import Changed, ModelError, StoreAway
from mindhold.model.lifecycle import (
    PARTS_KEY,
    YOUNGEST,
    Fate,
    StorageUsage,
    is_message,
    may_be_pruned,
    may_be_removed_alone,
    retention_key,
)
from mindhold.model.memory import ANY_STATUS, PART_KEY, Kind, Memory
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import StoreFinding
from mindhold.text.noise import is_noise


class RecapWriter(Protocol):
    """Writes the recap of a conversation that has none."""

    def __call__(self, engine: Engine, conversation: str, /, *, scope: str, agent: str) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class RecapPort:
    """The recap functions that retention uses. Without a writer, existing recaps still count."""

    covering: Callable[[Engine, Sequence[str]], Awaitable[AbstractSet[str]]]  # those with an active recap
    recap: RecapWriter | None = None


MEGABYTE = 1_000_000
ROOM_FINDING = "room for memories"


async def room_of(engine: Engine) -> StorageUsage:
    """How much of the allowed room all memories take. Cheap."""
    limits = engine.settings.retention
    return StorageUsage(
        items=await engine.store.count(Filter(viewer="system")),
        all_items=await engine.store.count(Filter(viewer="system", statuses=ANY_STATUS)),
        bytes_used=(await engine.store.facts()).bytes_used,
        most_items=limits.most_items,
        most_bytes=limits.most_megabytes * MEGABYTE,
    )


async def room_finding(engine: Engine) -> StoreFinding:
    """Healthy if no limit is near, or if maintenance will make room."""
    try:
        room = await room_of(engine)
    except StoreAway as error:  # a project's own store is unreachable
        return StoreFinding(ROOM_FINDING, True, f"not known: {error.message}")
    return StoreFinding(
        ROOM_FINDING, not room.tight, _describe_room(room), advice=_room_advice(engine) if room.tight else ""
    )


async def room_notice(engine: Engine) -> str:
    """A notice for the status; empty if there is room."""
    finding = await room_finding(engine)
    return "" if finding.healthy else f"Little room is left: {finding.detail}. {finding.advice}"


def _describe_room(room: StorageUsage) -> str:
    items = f"{room.items:,}" + (f" of {room.most_items:,}" if room.most_items else "") + " active memories"
    megabytes = f"{room.active_bytes / MEGABYTE:,.0f}"
    if room.most_bytes:
        megabytes += f" of {room.most_bytes / MEGABYTE:,.0f}"
    archived_bytes = room.bytes_used - room.active_bytes
    archived = f", {archived_bytes / MEGABYTE:,.0f} more in the archive" if archived_bytes >= MEGABYTE else ""
    return f"{items}, {megabytes} MB{archived}"


def _room_advice(engine: Engine) -> str:
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
    """Archive memories and return an example for each. What somebody used or changed meanwhile stays."""
    leaving = {memory.id: (memory, archived_copy(memory, read)) for memory in memories}
    examples = [StageExample(memory_id, Fate.ARCHIVED, why) for memory_id in leaving]
    if within.dry or not examples:
        return examples
    await within.before(examples)
    archived = await archive(engine, leaving, read=read)
    return [example for example in examples if example.memory_id in archived]


async def with_parts(engine: Engine, messages: Sequence[Memory], *, now: datetime) -> list[Memory]:
    """The messages with all their parts. If one part has to stay, the whole message stays."""
    complete: list[Memory] = []
    for message in messages:
        parts = await _parts(engine, message) if PARTS_KEY in message.metadata else []
        if all(may_be_pruned(part, now) for part in parts):
            complete += [message, *parts]
    return complete


def staged(
    examples: Sequence[StageExample], detail: str, *, looked: int = 0, more: bool = False
) -> StageResult:
    """The result of a step, described by `detail` if anything was archived."""
    counts = {str(Fate.ARCHIVED): len(examples)} if examples else {}
    return StageResult(
        RETENTION_STAGE,
        len(examples),
        detail if examples else NOTHING,
        more=more,
        looked=looked,
        examples=tuple(examples),
        counts=counts,
    )


async def _parts(engine: Engine, message: Memory) -> list[Memory]:
    """The later parts of a message, which have the position of the first."""
    position = message.provenance.position
    if position is None:
        return []
    where = Filter(
        viewer="system",
        scopes=(message.scope,),
        conversation=message.provenance.conversation,
        positions=(position, position),
    )
    memories = await engine.store.find(where, limit=int(message.metadata[PARTS_KEY]) + 50)
    return [memory for memory in memories if PART_KEY in memory.metadata and memory.agent == message.agent]


REPEATED_REASON = "an acknowledgement that says nothing"


async def merge_repeated(engine: Engine, within: StageLimits, _recaps: RecapPort) -> StageResult:
    """Merge duplicates as a consolidation does. A different number, name, date or negation makes a different fact."""
    stage = await run_duplicates(engine, within)
    count = stage.changed
    return replace(stage, detail=f"merged {count} that said the same" if count else NOTHING)


RECAPS_REQUESTED = "retention:asked"  # the cursor with the time up to which recaps were requested
POSITION_CURSOR = "retention:talk"  # the cursor with the position where a run stopped
COVERED_REASON = "older than {days} days, and a summary stands for it"


async def archive_old_messages(engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """Archive old messages, oldest first. Conversations without a recap get one before."""
    window = engine.settings.retention.message_window
    old_messages = _OldMessages(engine, within, recaps, window, goes_on=not within.dry)
    examples = [example async for batch in old_messages.leaving() for example in batch]
    empty = sum(example.why == REPEATED_REASON for example in examples)
    details = (
        _count_text(len(examples) - empty, "that summaries stand for"),
        _count_text(empty, "that say nothing" if empty > 1 else "that says nothing"),
    )
    detail = ", ".join(filter(None, details))
    return staged(examples, detail, looked=old_messages.looked, more=old_messages.more)


def _count_text(count: int, which: str) -> str:
    return f"archived {count} message{'s' if count > 1 else ''} {which}" if count else ""


@dataclass(slots=True)
class _OldMessages:
    """Archives messages that are older than `after`, oldest first, in batches, up to about `left` messages.

    With `goes_on` it starts where the last run stopped.
    """

    engine: Engine
    within: StageLimits
    recaps: RecapPort
    after: timedelta
    left: int = MAX_REMOVALS
    goes_on: bool = False
    requested: set[tuple[str, str, str]] = field(
        default_factory=set
    )  # conversations a recap was requested for
    looked: int = 0
    more: bool = False

    async def leaving(self) -> AsyncIterator[list[StageExample]]:
        """Archive batch by batch and yield the archived ones."""
        async for page, ended in self._pages():
            now = self.engine.clock()
            ready = [message for message in page if may_be_pruned(message, now, after=self.after)]
            # A mere "ok" or "thanks" needs no recap before it goes.
            empty = [message for message in ready if is_noise(message.content)]
            examples = await archive_by_rule(
                self.engine, empty[: self.left], why=REPEATED_REASON, within=self.within, read=now
            )
            rest = [message for message in ready if not is_noise(message.content)]
            covered = await self._covered(rest)
            archivable = [message for message in rest if message.id in covered][
                : max(0, self.left - len(examples))
            ]
            whole = await with_parts(self.engine, archivable, now=now)
            why = COVERED_REASON.format(days=self.after.days)
            examples += await archive_by_rule(self.engine, whole, why=why, within=self.within, read=now)
            yield examples
            self.left -= len(examples)
            if self.left <= 0 or self.within.over:
                self.more = True
                await self._save_position(ended)
                return
        await self._save_position(None)

    async def _pages(self) -> AsyncIterator[tuple[list[Memory], PagePosition]]:
        """Pages of first parts of messages, and the position of the page's end."""
        where = Filter(viewer="system", kinds=(Kind.EPISODE,), until=self.engine.clock() - self.after)
        after = _parse_position(await self.engine.store.cursor(POSITION_CURSOR)) if self.goes_on else None
        while page := await self.engine.store.find(
            where, order=Order.OLDEST, limit=self.within.batch, after=after
        ):
            after = PagePosition.of(page[-1], Order.OLDEST)
            self.looked += len(page)
            yield (
                [message for message in page if is_message(message) and PART_KEY not in message.metadata],
                after,
            )

    async def _save_position(self, ended: PagePosition | None) -> None:
        if self.goes_on:
            position = None
            if ended and isinstance(ended.value, datetime):
                position = f"{ended.value.isoformat()} {ended.id}"
            await self.engine.store.set_cursor(POSITION_CURSOR, position)

    async def _covered(self, messages: Sequence[Memory]) -> set[str]:
        ids = [message.id for message in messages]
        covered = set(await self.recaps.covering(self.engine, ids)) if ids else set()
        uncovered = [message for message in messages if message.id not in covered]
        if not uncovered or not await self._request_recaps(uncovered):
            return covered
        return set(await self.recaps.covering(self.engine, ids))

    async def _request_recaps(self, messages: Sequence[Memory]) -> bool:
        """Whether a recap was requested: once per conversation that is old enough, and not in a dry run.

        Conversations that are too short never get one and are not requested again every day.
        """
        if self.recaps.recap is None or self.within.dry:
            return False
        cursor = await self.engine.store.cursor(RECAPS_REQUESTED)
        since = datetime.fromisoformat(cursor) if cursor else None
        fresh = [message for message in messages if since is None or message.occurred > since]
        for message in fresh:
            key = (message.scope, message.agent, message.provenance.conversation or "")
            if key in self.requested:
                continue
            self.requested.add(key)
            scope, agent, conversation = key
            # Somebody took messages away meanwhile: it is written without them another time.
            with suppress(Changed):
                await self.recaps.recap(self.engine, conversation, scope=scope, agent=agent)
        if fresh:
            await self.engine.store.set_cursor(
                RECAPS_REQUESTED, max(message.occurred for message in fresh).isoformat()
            )
        return bool(fresh)


def _parse_position(cursor: str | None) -> PagePosition | None:
    if cursor is None:
        return None
    moment, _, memory_id = cursor.partition(" ")
    return PagePosition(datetime.fromisoformat(moment), memory_id)


async def archive_unused(engine: Engine, within: StageLimits, _recaps: RecapPort) -> StageResult:
    """Archive due memories that nobody used; nothing is left to do after a consolidation."""
    stage = await sweep_by(engine, within, "expiry")
    archived, erased = stage.counts.get(Fate.ARCHIVED, 0), stage.counts.get(Fate.ERASED, 0)
    parts = [f"archived {archived} that nobody used"] if archived else []
    if erased:
        parts.append(f"removed {erased} whose time in the archive was over, to a file in backups/")
    return replace(stage, detail="; ".join(parts) or NOTHING)


MOST_AT_ONCE = 10_000
SIZE_REASON = "there is little room, and of all it was worth least"


async def make_room(engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """From 90 % of a limit on, archive until 80 % are used or nothing more may go."""
    room = await room_of(engine)
    count = room.to_free()
    if not count:
        return staged([], "")
    old_messages = _OldMessages(engine, within, recaps, YOUNGEST, left=count)
    examples = [example async for batch in old_messages.leaving() for example in batch]
    least, looked, more = await _archive_least_valuable(
        engine, within, count - len(examples), besides=examples
    )
    examples += least
    detail = f"archived {len(examples)} to make room ({room.fullest:.0%} of what is allowed was taken)"
    return staged(examples, detail, looked=old_messages.looked + looked, more=more or within.over)


async def _archive_least_valuable(
    engine: Engine, within: StageLimits, count: int, *, besides: Sequence[StageExample]
) -> tuple[list[StageExample], int, bool]:
    """Archive the least valuable memories. Returns them, how many were examined, and whether the time was up."""
    if count <= 0:
        return [], 0, False
    excluded = {example.memory_id for example in besides}  # a dry run still finds them active
    least, looked = await _least_valuable(engine, min(count, MOST_AT_ONCE), besides=excluded)
    examples: list[StageExample] = []
    for start in range(0, len(least), within.batch):
        if start and within.over:
            return examples, looked, True
        batch = least[start : start + within.batch]
        examples += await archive_by_rule(engine, batch, why=SIZE_REASON, within=within, read=engine.clock())
    return examples, looked, False


async def _least_valuable(engine: Engine, count: int, *, besides: set[str]) -> tuple[list[Memory], int]:
    """The least valuable memories that may go. It scans in batches and never holds more than `count` plus a batch."""
    least: list[Memory] = []
    looked = 0
    async for batch in engine.store.scan(Filter(viewer="system")):
        now = engine.clock()
        looked += len(batch)
        ready = [
            memory
            for memory in batch
            if memory.id not in besides and may_be_removed_alone(memory) and may_be_pruned(memory, now)
        ]
        least = nsmallest(count, [*least, *ready], key=retention_key)
    return least, looked


KEEP_ALL_NOTICE = "retention.level is keep-all: nothing goes by itself"
Step = Callable[[Engine, StageLimits, RecapPort], Awaitable[StageResult]]
STEPS: tuple[Step, ...] = (archive_old_messages, merge_repeated, archive_unused, make_room)
# Steps that a consolidation does as well.
CONSOLIDATION_STEPS: tuple[Step, ...] = (merge_repeated, archive_unused)


async def run_retention(
    engine: Engine, within: StageLimits, *, recaps: RecapPort | None = None, consolidated: bool = False
) -> StageResult:
    """Run all retention steps. A second run at once does nothing; of two parallel runs one does the work.

    `consolidated`: a consolidation has just done its part. The audit trail names what goes before it goes. Raises the
    store's errors.
    """
    if not engine.settings.retention.prunes:
        return StageResult(RETENTION_STAGE, 0, KEEP_ALL_NOTICE)
    if recaps is None:
        from mindhold.conversations.recap_creation import covered_messages, recap_conversation

        recaps = RecapPort(covered_messages, recap_conversation)
    steps = [step for step in STEPS if not (consolidated and step in CONSOLIDATION_STEPS)]
    if within.dry:
        return combine_stages(*[await step(engine, within, recaps) for step in steps])
    async with claim(engine, RETENTION_STAGE) as acquired:
        if not acquired:
            return StageResult(RETENTION_STAGE, 0, "another process is at it")
        journal = AuditJournal(engine, RETENTION)
        results: list[StageResult] = []
        journalled = replace(within, before=journal.before)
        for number, step in enumerate(steps):
            if journal.full:
                results.append(StageResult(RETENTION_STAGE, 0, "", more=True))
                break
            results.append(
                await _run_step(step, engine, share_of_limits(journalled, 1 / (len(steps) - number)), recaps)
            )
        whole = combine_stages(*results)
        operations = [stage.detail for stage in results if stage.changed]
        await journal.close(whole.examples, operations=operations, counts=whole.counts)
    return whole


async def _run_step(step: Step, engine: Engine, within: StageLimits, recaps: RecapPort) -> StageResult:
    """Run one step. A model that fails doesn't stop the other steps."""
    began = perf_counter()
    try:
        stage = await step(engine, within, recaps)
    except ModelError as error:
        stage = StageResult(RETENTION_STAGE, 0, f"failed: {error.message}")
    return replace(stage, seconds=perf_counter() - began)
