"""Forgetting well, through the front door: what goes at each level, what never does, and that all of it comes back."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, at, everything, found, recall, run, stored

from mindhold.app.application import App
from mindhold.backup.create import LIST_BACKUPS
from mindhold.backup.restore import RESTORE
from mindhold.conversations.message_log import SAVE_MESSAGE
from mindhold.engine import Engine
from mindhold.lifecycle import retention
from mindhold.lifecycle.archive import UNDO_AUDIT
from mindhold.lifecycle.audit import LIST_AUDIT, SHOW_AUDIT
from mindhold.lifecycle.consolidation import run_consolidation as consolidate
from mindhold.lifecycle.maintenance_operations import CONSOLIDATE
from mindhold.lifecycle.retention import RecapPort
from mindhold.lifecycle.stage_report import StageLimits, StageResult
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.evaluation import evaluate
from mindhold.memories.forget import UNFORGET
from mindhold.memories.prepare import indexed
from mindhold.model.errors import StoreBusy
from mindhold.model.lifecycle import is_summary_of_others
from mindhold.model.memory import ANY_STATUS, Kind, Memory, Provenance, Status
from mindhold.model.query import Filter
from mindhold.ports.store import Mark
from mindhold.testing.builders import Builder

DAY = timedelta(days=1)
WITHIN = StageLimits()
TALK = (
    "The oven is lit at five.",
    "The flour comes on Mondays.",
    "Who bakes on Sundays?",
    "ok",
    "Ines does, with Paul.",
)


def days_later(app: App, days: float) -> App:
    return at(app, app.engine.clock() + days * DAY)


async def whole(app: App) -> dict[str, Memory]:
    """Every record that there is, of whatever status."""
    where = Filter(viewer="system", statuses=ANY_STATUS)
    return {one.id: one async for batch in app.engine.store.scan(where) for one in batch}


async def statuses(app: App) -> dict[str, Status]:
    return {name: one.status for name, one in (await whole(app)).items()}


async def talk(app: App, conversation: str, *said: str) -> list[str]:
    """The ids of its messages."""
    ids = []
    for text in said or TALK:
        answer = await run(app, SAVE_MESSAGE, message_type="user", content=text, conversation=conversation)
        ids.append(answer.message_id)
    return ids


async def recap(app: App, ids: list[str], content: str = "They spoke of the bakery.") -> Memory:
    """A summary that stands for these, as those have it who write them."""
    now = app.engine.clock()
    made = Builder().memory(
        content,
        kind=Kind.CONTEXT,
        created=now,
        updated=now,
        occurred=now,
        review=now,
        verified=now,
        merged_from=tuple(ids),
        provenance=Provenance(source="summary"),
        metadata={"mindhold.recap": {"part": 1}},
    )
    memory = replace(made, id=app.engine.new_id(), content_hash=app.engine.new_id())
    await app.engine.store.apply([indexed(app.engine, memory, vector=None)])
    return memory


async def kept_for_good(app: App) -> set[str]:
    """One of each sort that no rule takes."""
    ids = {
        await stored(app, "Her name is Ada Quill.", kind="fact", tags=["profile"]),
        await stored(app, "The lease ends in June.", kind="fact", tags=["important"]),
        await stored(app, "The safe is behind the shelf.", kind="fact", importance=0.95),
        await stored(app, "This is important: the alarm code changes monthly.", kind="fact"),
        await stored(app, "The charter hangs in the hall.", kind="fact", anchor=True),
        await stored(app, "Paul likes his bread dark.", kind="preference"),
        await stored(app, "The mixer stopped with error 12.", kind="error"),
    }
    await evaluate(app.engine)
    return ids


async def facts(app: App, number: int, *, first: int = 0) -> list[str]:
    ids = [
        await stored(app, f"Shelf {n} holds {n * 7 + 3} loaves.", kind="fact")
        for n in range(first, first + number)
    ]
    await evaluate(app.engine)
    return ids


async def covered_by_lineage(engine: Engine, ids: Sequence[str], /) -> set[str]:
    """The messages that recaps name as their sources."""
    requested = set(ids)
    recaps = await engine.store.derived_from(list(ids)) if ids else []
    return {
        source
        for recap in recaps
        if recap.status is Status.ACTIVE and is_summary_of_others(recap)
        for source in recap.merged_from
        if source in requested
    }


async def retained(app: App, recaps: RecapPort | None = None, within: StageLimits = WITHIN) -> StageResult:
    return await retention.run_retention(app.engine, within, recaps=recaps or RecapPort(covered_by_lineage))


class Broken:
    """The same store, which fails for good at its nth write: as if the process had been killed there."""

    def __init__(self, app: App, *, at_write: int) -> None:
        self.app = replace(app, engine=replace(app.engine, store=self))
        self._store = app.engine.store
        self._left = at_write

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if name in ("apply", "put_entry", "drop_entry", "erase") else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise StoreBusy("It was killed.")
            return await call(*given, **named)

        return counted


class TestTime:
    async def test_messages_go_once_a_summary_stands_for_them(self, app: App) -> None:
        ids = await talk(app, "bakery")
        later = days_later(app, 200)
        done = await retained(later)
        after = await statuses(app)
        assert done.detail == "archived 1 message that says nothing"
        assert [after[one] for one in ids].count(Status.ACTIVE) == 4
        made = await recap(later, ids)
        done = await retained(later)
        assert done.detail == "archived 4 messages that summaries stand for"
        after = await statuses(app)
        assert {after[one] for one in ids} == {Status.ARCHIVED}
        assert after[made.id] is Status.ACTIVE
        assert (await retained(later)).changed == 0

    async def test_a_summary_is_written_first_where_somebody_writes_them(self, app: App) -> None:
        ids = await talk(app, "bakery")
        asked: list[str] = []

        async def write(engine: Any, conversation: str, /, *, scope: str, agent: str) -> None:
            asked.append(conversation)
            await recap(later, ids)

        later = days_later(app, 200)
        assert (await retained(later, RecapPort(covered_by_lineage, write))).changed == 5
        assert len(asked) == 1
        assert "bakery" in asked[0]

    async def test_a_summary_is_asked_for_once(self, app: App) -> None:
        """Of what is too short for one nobody asks every day."""
        await talk(app, "bakery", "The oven is lit at five.")
        asked: list[str] = []

        async def write(engine: Any, conversation: str, /, *, scope: str, agent: str) -> None:
            asked.append(conversation)

        recaps = RecapPort(covered_by_lineage, write)
        later = days_later(app, 200)
        for _ in range(3):
            assert (await retained(later, recaps)).changed == 0
        assert len(asked) == 1
        await talk(later, "mill", "The mill is shut.")
        await retained(days_later(later, 200), recaps)
        assert len(asked) == 2

    async def test_without_time_it_goes_on_where_it_stopped(self, app: App) -> None:
        bare = await talk(app, "bakery", *(f"Loaf {n} was sold at noon." for n in range(5)))
        covered = await talk(app, "mill", *(f"Sack {n} came by cart." for n in range(5)))
        await recap(app, covered)
        hasty = StageLimits(batch=2, deadline=0.0, ticks=lambda: 1.0)
        later = days_later(app, 200)
        runs = 0
        recaps = RecapPort(covered_by_lineage)
        while (await retention.run_retention(later.engine, hasty, recaps=recaps, consolidated=True)).more:
            runs += 1
            assert runs < 20
        after = await statuses(app)
        assert {after[one] for one in covered} == {Status.ARCHIVED}
        assert {after[one] for one in bare} == {Status.ACTIVE}

    async def test_younger_ones_are_never_touched(self, app: App) -> None:
        ids = await talk(app, "bakery")
        await recap(app, ids)
        for days in (0, 22, 180):
            assert (await retained(days_later(app, days))).changed == 0
        assert (await retained(days_later(app, 184))).changed == 5

    async def test_what_a_person_called_important_stays(self, app: App) -> None:
        ids = await talk(
            app, "bakery", "The oven is old.", "This is important: the gas must be off at night."
        )
        await recap(app, ids)
        await retained(days_later(app, 400))
        after = await statuses(app)
        assert [after[one] for one in ids] == [Status.ARCHIVED, Status.ACTIVE]

    async def test_a_summary_outlives_what_it_stands_for(self, app: App) -> None:
        ids = await talk(app, "bakery")
        made = await recap(app, ids)
        for days in range(190, 1_500, 120):
            await run(days_later(app, days), CONSOLIDATE)
        after = await statuses(app)
        assert after[made.id] is Status.ACTIVE
        assert {after[one] for one in ids} == {Status.ARCHIVED}

    async def test_a_forgotten_summary_stands_for_nothing(self, app: App) -> None:
        ids = await talk(app, "bakery", "The oven is lit at five.")
        made = await recap(app, ids)
        await app.engine.store.apply([Mark(made.id, Status.FORGOTTEN, Status.ACTIVE, app.engine.clock())])
        assert (await retained(days_later(app, 400))).changed == 0

    async def test_a_long_message_goes_whole(self, app: App) -> None:
        text = "\n\n".join(f"Paragraph {n} tells of the bakery at length. " * 30 for n in range(9))
        [first] = await talk(app, "bakery", text)
        parts = [one for one in (await whole(app)).values() if one.kind is Kind.EPISODE]
        assert len(parts) > 1
        await recap(app, [first])
        done = await retained(days_later(app, 200))
        assert done.changed == len(parts)
        after = await statuses(app)
        assert {after[one.id] for one in parts} == {Status.ARCHIVED}
        [kept] = (await run(app, LIST_AUDIT)).records
        await run(app, UNDO_AUDIT, id=kept.id)
        assert set((await statuses(app)).values()) == {Status.ACTIVE}

    async def test_brought_back_they_stay_for_another_while(self, app: App) -> None:
        ids = await talk(app, "bakery")
        await recap(app, ids)
        later = days_later(app, 200)
        await retained(later)
        await run(later, UNFORGET, ids=ids[:1])
        assert (await retained(days_later(later, 100))).changed == 0
        assert (await retained(days_later(later, 190))).changed == 1

    async def test_a_dry_run_changes_nothing_and_leaves_no_record(self, app: App) -> None:
        await recap(app, await talk(app, "bakery"))
        before = await whole(app)
        told = await retained(days_later(app, 200), within=StageLimits(dry=True))
        assert told.changed == 5
        assert await whole(app) == before
        assert (await run(app, LIST_AUDIT)).records == []


class TestSize:
    @asynccontextmanager
    async def _tight(self, opened: Open, **more: Any) -> AsyncIterator[App]:
        async with opened(**{"retention.most_items": 30, **more}) as app:
            yield app

    async def test_room_is_made_before_the_limit_is_hit(self, opened: Open) -> None:
        async with self._tight(opened) as app:
            await facts(app, 26)
            later = days_later(app, 30)
            assert (await retained(later)).changed == 0
            await facts(app, 1, first=26)
            done = await retained(later)
            assert done.detail == "archived 3 to make room (90% of what is allowed was taken)"
            assert len(await everything(app)) == 24
            assert (await retained(later)).changed == 0

    async def test_conversations_are_condensed_first_then_the_least_valuable_go(self, opened: Open) -> None:
        async with self._tight(opened) as app:
            said = await talk(app, "bakery")
            made = await recap(app, said)
            kept = await kept_for_good(app)
            plain = await facts(app, 16)
            used = plain[3]
            await app.engine.store.touch([used], app.engine.clock())
            later = days_later(app, 40)
            await retained(later)
            after = await statuses(app)
            assert {after[one] for one in said} == {Status.ARCHIVED}
            assert {after[one] for one in (*kept, made.id, used)} == {Status.ACTIVE}
            assert len(await everything(app)) <= 24

    async def test_where_only_what_is_protected_is_left_it_says_so(self, opened: Open) -> None:
        async with self._tight(opened, **{"retention.most_items": 6}) as app:
            kept = await kept_for_good(app)
            later = days_later(app, 400)
            assert (await retained(later)).changed == 0
            assert kept <= {one.id for one in await everything(app)}
            assert "Little room is left: 7 of 6 active memories" in (await run(app, STATUS)).notice
            [told] = [one for one in (await run(app, DOCTOR)).findings if one.name == "room for memories"]
            assert not told.healthy
            assert "retire a scope" in told.advice

    async def test_keep_all_says_so_and_takes_nothing(self, opened: Open) -> None:
        async with self._tight(opened, **{"retention.level": "keep-all"}) as app:
            await facts(app, 40)
            before = await statuses(app)
            await run(days_later(app, 900), CONSOLIDATE)
            assert await statuses(app) == before
            assert "keep-all" in (await run(app, STATUS)).notice

    async def test_megabytes_count_what_is_active(self, opened: Open) -> None:
        async with opened() as app:
            await facts(app, 10)
            room = await retention.room_of(app.engine)
            assert room.active_bytes == room.bytes_used > 0
            chosen = replace(app.engine.settings.retention, most_megabytes=1)
            settings = replace(app.engine.settings, retention=chosen)
            facts_of = app.engine.store.facts

            class Grown:
                """The same store, which takes up nearly all that it may."""

                def __getattr__(self, name: str) -> Any:
                    return getattr(app.engine.store, name)

                async def facts(self) -> Any:
                    return replace(await facts_of(), bytes_used=950_000)

            store: Any = Grown()
            tight = replace(app, engine=replace(app.engine, settings=settings, store=store))
            done = await retained(days_later(tight, 30))
            assert done.changed == 2
            assert (await retained(days_later(tight, 30))).changed == 0

    async def test_nothing_younger_than_three_weeks_makes_room(self, opened: Open) -> None:
        async with self._tight(opened) as app:
            await facts(app, 40)
            assert (await retained(days_later(app, 20))).changed == 0
            assert len(await everything(app)) == 40


class TestBrokenOff:
    async def test_at_every_write_nothing_is_lost_and_the_next_run_finishes(self, opened: Open) -> None:
        async with opened(**{"retention.most_items": 20}) as app:
            kept = await kept_for_good(app)
            ids = await talk(app, "bakery")
            await recap(app, ids)
            await facts(app, 12)
            later = days_later(app, 200)
            before = set(await whole(app))
            killed = 0
            for number in range(40):
                try:
                    await retained(Broken(later, at_write=number).app)
                    break
                except StoreBusy:
                    killed += 1
                now = await whole(app)
                assert set(now) == before
                assert {now[one].status for one in kept} == {Status.ACTIVE}
                gone = {name for name, one in now.items() if one.status is Status.ARCHIVED}
                assert gone <= await self._told(app)
                # Its claim ends by itself after a while.
                later = at(later, later.engine.clock() + timedelta(minutes=11))
            assert killed > 2
            assert (await retained(at(later, later.engine.clock() + timedelta(minutes=11)))).changed == 0
            await self._undo_all(app)
            assert set((await statuses(app)).values()) == {Status.ACTIVE}

    async def test_a_consolidation_leaves_word_of_what_it_archived(self, app: App) -> None:
        ids = await facts(app, 6)
        later = days_later(app, 200)
        seen = 0
        for number in range(12):
            try:
                await consolidate(Broken(later, at_write=number).app.engine, stages=("decay", "expiry"))
            except StoreBusy:
                gone = {name for name, status in (await statuses(app)).items() if status is Status.ARCHIVED}
                assert gone <= await self._told(app)
                seen += bool(gone)
                later = at(later, later.engine.clock() + timedelta(minutes=11))
        assert seen
        assert {(await statuses(app))[one] for one in ids} == {Status.ARCHIVED}
        await self._undo_all(app)
        assert {(await statuses(app))[one] for one in ids} == {Status.ACTIVE}

    async def _told(self, app: App) -> set[str]:
        kept = (await run(app, LIST_AUDIT, limit=100)).records
        shown = [await run(app, SHOW_AUDIT, id=one.id) for one in kept]
        return {told.id for one in shown for told in one.memories if told.what == "archived"}

    async def _undo_all(self, app: App) -> None:
        for one in (await run(app, LIST_AUDIT, limit=100)).records:
            await run(app, UNDO_AUDIT, id=one.id)


class TestPruned:
    async def test_what_is_removed_lies_in_a_file_first_and_comes_back_from_there(self, app: App) -> None:
        [gone] = await facts(app, 1)
        away = days_later(app, 200)
        await run(away, CONSOLIDATE)
        assert (await statuses(app))[gone] is Status.ARCHIVED
        last = days_later(away, 200)
        await run(last, CONSOLIDATE)
        assert gone not in await whole(app)
        [file] = [one for one in (await run(app, LIST_BACKUPS)).backups if one.file.startswith("pruned-")]
        assert file.sha256
        records = (await run(last, LIST_AUDIT)).records
        assert records[0].files == [file.file]
        assert f"mindhold restore {file.file}" in records[0].back
        back = await run(last, RESTORE, file=file.file)
        assert back.memories == 1
        assert (await statuses(app))[gone] is Status.ARCHIVED
        await run(days_later(last, 30), CONSOLIDATE)
        assert (await statuses(app))[gone] is Status.ARCHIVED, "who brings it back wants it"
        await run(last, UNFORGET, ids=[gone])
        assert gone in await found(last, "Shelf 0 loaves")

    async def test_the_newest_days_are_kept(self, opened: Open) -> None:
        async with opened(**{"retention.keep_pruned_files": 2}) as app:
            for number in range(4):
                await facts(days_later(app, number * 30), 1, first=number)
            for day in range(100, 600, 10):
                await run(days_later(app, day), CONSOLIDATE)
            files = [one.file for one in (await run(app, LIST_BACKUPS)).backups]
            days = {file[7:15] for file in files if file.startswith("pruned-")}
            assert len(days) == 2

    @pytest.mark.local_file
    async def test_where_no_file_can_be_written_nothing_is_removed(self, app: App, home: Path) -> None:
        [gone] = await facts(app, 1)
        away = days_later(app, 200)
        await run(away, CONSOLIDATE)
        shutil.rmtree(home / "backups")
        (home / "backups").write_text("in the way")
        await run(days_later(away, 200), CONSOLIDATE)
        assert (await statuses(app))[gone] is Status.ARCHIVED


@pytest.mark.parametrize("level", ["keep-all", "moderate", "aggressive"])
async def test_the_years_at_every_level(opened: Open, level: str) -> None:
    """What is protected is always there, keep-all changes nothing, and what is archived comes back by its record."""
    settings = {"retention.level": level, "retention.most_items": 60, "life.keep_archived_days": 0}
    async with opened(**settings, **{"store.durability": "normal"}) as app:
        kept = await kept_for_good(app)
        messages: list[str] = []
        for month in range(0, 36, 3):
            now = days_later(app, 30 * month)
            await facts(now, 4, first=4 * month)
            said = await talk(now, f"talk {month}", f"The bread of month {month} was dark.", "thanks")
            await recap(now, said, f"In month {month} they spoke of bread.")
            messages += said
            kept |= {await stored(now, f"Remember this: month {month} was the busiest yet.", kind="fact")}
            await run(now, CONSOLIDATE)
            there = await whole(app)
            assert {there[one].status for one in kept} == {Status.ACTIVE}
            assert (
                len([one for one in there.values() if one.status is Status.ACTIVE]) < 60
                or level == "keep-all"
            )
        end = days_later(app, 30 * 36 + 200)
        await run(end, CONSOLIDATE)
        again = await retained(end)
        assert again.changed == 0
        after = await whole(app)
        archived = {name for name, one in after.items() if one.status is Status.ARCHIVED}
        if level == "keep-all":
            assert {one.status for one in after.values()} == {Status.ACTIVE}
            assert (await run(end, LIST_AUDIT, limit=1000)).records == [
                one
                for one in (await run(end, LIST_AUDIT, limit=1000)).records
                if "archived" not in one.counts
            ]
            return
        assert set(messages) <= archived
        for one in (await run(end, LIST_AUDIT, limit=1000)).records:
            await run(end, UNDO_AUDIT, id=one.id)
        back = await whole(app)
        assert {back[one].status for one in archived} == {Status.ACTIVE}
        assert {back[one].content for one in archived} == {after[one].content for one in archived}


async def test_keep_all_leaves_every_record_as_it_is(opened: Open) -> None:
    async with opened(**{"retention.level": "keep-all", "life.archive_below": 1.0}) as app:
        await kept_for_good(app)
        await facts(app, 5)
        twin = await stored(app, "The mill grinds rye and barley.", kind="note")
        await app.engine.store.apply(
            [
                indexed(
                    app.engine,
                    replace((await whole(app))[twin], id=app.engine.new_id(), content_hash="twin"),
                    vector=None,
                )
            ]
        )
        await recap(app, await talk(app, "bakery", *TALK[:2]))
        before = await whole(app)
        for days in (100, 500, 2_000):
            later = days_later(app, days)
            answer = await run(later, CONSOLIDATE)
            assert answer.archived == answer.erased == []
            assert "keep-all" in (await retained(later)).detail
        after = await whole(app)
        assert {name: (one.status, one.importance) for name, one in after.items()} == {
            name: (one.status, one.importance) for name, one in before.items()
        }


async def test_the_archive_is_found_by_a_flag(app: App) -> None:
    [gone] = await facts(app, 1)
    later = days_later(app, 200)
    await run(later, CONSOLIDATE)
    assert await found(later, "Shelf 0 loaves") == []
    hits = (await recall(later, "Shelf 0 loaves", statuses=["archived"])).hits
    assert [(hit.id, hit.status) for hit in hits] == [(gone, "archived")]


async def test_optimising_tells_in_words(app: App) -> None:
    await recap(app, await talk(app, "bakery"))
    answer = await run(days_later(app, 200), CONSOLIDATE)
    [told] = [line for line in answer.operations if line.startswith("retention: ")]
    assert (
        told
        == "retention: archived 4 messages that summaries stand for, archived 1 message that says nothing"
    )
    assert answer.counts["archived"] == len(answer.archived) == 5
    dry = await run(days_later(app, 200), CONSOLIDATE, dry_run=True)
    assert dry.counts.get("archived", 0) == 0
