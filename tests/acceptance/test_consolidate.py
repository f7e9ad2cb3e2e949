"""The upkeep of what is remembered, through the front door: what it does, and that nobody is harmed by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import log
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, acting, at, everything, found, recall, remember, run, show, stored

from mindhold.app.application import App
from mindhold.jobs.handlers import HANDLERS
from mindhold.jobs.queue import LIST_JOBS
from mindhold.jobs.runner import Runner
from mindhold.lifecycle.consolidation import STAGES
from mindhold.lifecycle.consolidation import run_consolidation as consolidate
from mindhold.lifecycle.maintenance_operations import CONSOLIDATE, CONSOLIDATION_REPORTS, ConsolidateResult
from mindhold.locks import claim
from mindhold.memories.amend import AMEND
from mindhold.memories.evaluation import evaluate
from mindhold.memories.feedback import FEEDBACK
from mindhold.memories.forget import FORGET, UNFORGET
from mindhold.memories.links import LINK
from mindhold.memories.prepare import indexed
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.memories.stats import STATS
from mindhold.memories.transfer import EXPORT
from mindhold.model.errors import Changed, InvalidInput, MemoryNotFound, Refused
from mindhold.model.job import Job
from mindhold.model.memory import ANY_STATUS, Kind, Memory, Status, Tier
from mindhold.model.query import Filter, Order
from mindhold.ports.store import Enqueue, Inherit, Mark
from mindhold.testing.builders import Builder

DAY = timedelta(days=1)
WORDS = "harbour crane winch anchor rope captain lantern compass rudder galley".split()


def changed(answer: ConsolidateResult) -> dict[str, int]:
    return {stage.stage: stage.changed for stage in answer.stages if stage.changed}


def days_later(app: App, days: float) -> App:
    return at(app, app.engine.clock() + days * DAY)


def with_life(app: App, **changes: Any) -> App:
    """The same app with other rules of life."""
    life = replace(app.engine.settings.life, **changes)
    return replace(app, engine=app.engine.with_settings(life=life))


async def whole(app: App) -> dict[str, Memory]:
    """Every record that there is, of whatever status."""
    where = Filter(viewer="system", statuses=ANY_STATUS)
    return {one.id: one async for batch in app.engine.store.scan(where) for one in batch}


async def many(app: App, number: int, **fields: Any) -> list[str]:
    """So many facts about different things."""
    items = [
        {"content": f"The {WORDS[n % 10]} of ship {n} weighs {n * 7} tons.", "kind": "fact", **fields}
        for n in range(number)
    ]
    answer = await run(app, REMEMBER_MANY, items=items)
    await evaluate(app.engine)
    return [one.id for one in answer.results if one.id is not None]


async def put(app: App, content: str, **fields: Any) -> Memory:
    """A record past intake, which would not store the same twice."""
    now = app.engine.clock()
    made = Builder().memory(content, created=now, updated=now, review=now, verified=now, **fields)
    memory = replace(made, id=app.engine.new_id(), content_hash=app.engine.new_id())
    await app.engine.store.apply([indexed(app.engine, memory, vector=None)])
    return memory


class TestWhatItTells:
    """The answer, the reports, the dry run."""

    async def test_it_tells_only_what_it_did(self, opened: Open) -> None:
        async with opened(**{"embedding.provider": "none"}) as app:
            await many(app, 2)
        async with opened() as app:
            steps: list[str] = []
            answer = await app.run(
                CONSOLIDATE, CONSOLIDATE.takes(), progress=lambda step, _done, _total: steps.append(step)
            )
            assert [stage.stage for stage in answer.stages] == [*STAGES, "jobs"]
            assert changed(answer)["embeddings"] == 2
            assert any(line.startswith("embeddings: 2 ") for line in answer.operations)
            assert {"embeddings", "contradictions", "pending", "index", "jobs"} <= set(steps)
            assert all(stage.seconds >= 0 and not stage.more for stage in answer.stages)
            assert (await run(app, STATS)).last_consolidated is not None
            again = await run(app, CONSOLIDATE)
            assert changed(again).keys() <= {"index"}  # the files may always be put in order
            assert len(again.operations) == len(changed(again))

    async def test_it_runs_the_jobs_that_are_due(self, app: App) -> None:
        await many(app, 12)
        stages = {stage.stage: stage for stage in (await run(app, CONSOLIDATE)).stages}
        assert "related with others" in stages["jobs"].detail
        assert "consolidate" not in stages["jobs"].detail
        assert stages["jobs"].changed >= (await run(app, STATS)).links > 0

    async def test_a_dry_run_changes_nothing_at_all(self, app: App, tmp_path: Path) -> None:
        await many(app, 30)
        twin = await put(app, "The cook has a sharp knife.", kind=Kind.FACT)
        await put(app, "the cook has a sharp knife!", kind=Kind.FACT)
        [archived, *_] = await many(at(app, app.engine.clock() - 400 * DAY), 3, topic="old")
        await run(with_life(days_later(app, 0), batch=7), CONSOLIDATE, stages=["expiry"])

        async def state(name: str) -> tuple[object, ...]:
            await run(acting(app, "system"), EXPORT, path=str(tmp_path / name))
            reports = (await run(app, CONSOLIDATION_REPORTS)).reports
            jobs = (await run(app, LIST_JOBS)).tally
            return (tmp_path / name).read_bytes(), len(reports), jobs, await whole(app)

        before = await state("before")
        later = with_life(days_later(app, 150), batch=7)
        dry = await run(later, CONSOLIDATE, dry_run=True)
        assert await state("after") == before
        assert dry.dry_run
        assert dry.counts["archived"] >= 30
        assert dry.counts["merged"] == 1
        assert dry.stages[0].looked == len(before[3])  # type: ignore[arg-type]
        assert archived not in {one.id for one in dry.erased}
        done = await run(later, CONSOLIDATE)
        counts = {name: done.counts.get(name, 0) for name in ("archived", "merged", "erased", "faded")}
        assert counts == {name: dry.counts.get(name, 0) for name in counts}
        assert {one.id for one in done.archived} == {one.id for one in dry.archived}
        assert twin.id in await whole(app)

    async def test_reports_are_kept_and_say_what_went_and_why(self, app: App) -> None:
        [gone] = await many(app, 1)
        put_away = await run(days_later(app, 130), CONSOLIDATE)
        assert [(one.id, one.why.split(",")[0]) for one in put_away.archived] == [
            (gone, "unused for 130 days")
        ]
        assert (await show(app, gone)).memory.status == "archived"
        kept = days_later(app, 200)
        assert (await run(kept, CONSOLIDATE)).erased == []
        erased = await run(days_later(app, 311), CONSOLIDATE)
        assert [(one.id, one.why) for one in erased.erased] == [
            (gone, "archived for 181 days and not asked for")
        ]
        with pytest.raises(MemoryNotFound):
            await show(app, gone)
        last, *between, first = (await run(days_later(app, 312), CONSOLIDATION_REPORTS)).reports
        assert [one.id for one in last.erased] == [gone]
        assert [one for report in between for one in (*report.archived, *report.erased)] == []
        assert (first.counts["archived"], first.archived) == (1, [])  # what was erased is named no more
        assert last.started > first.started
        assert (await run(days_later(app, 800), CONSOLIDATION_REPORTS)).reports == []

    async def test_an_answer_names_some_and_a_report_all(self, app: App) -> None:
        await many(app, 230)
        later = days_later(app, 130)
        answer = await run(later, CONSOLIDATE)
        assert (answer.counts["archived"], len(answer.archived), len(answer.stale)) == (230, 50, 0)
        [report] = (await run(later, CONSOLIDATION_REPORTS)).reports
        assert (report.counts["archived"], len(report.archived)) == (230, 230)

    async def test_single_stages(self, app: App) -> None:
        [one] = await many(app, 1)
        later = days_later(app, 130)
        with pytest.raises(InvalidInput, match="cooking"):
            await run(later, CONSOLIDATE, stages=["cooking"])
        answer = await run(later, CONSOLIDATE, stages=["decay", "tiers"])
        assert [stage.stage for stage in answer.stages] == ["tiers", "decay"]
        memory = (await whole(app))[one]
        assert (memory.tier, memory.status) == (Tier.COLD, Status.ACTIVE)
        assert memory.importance == pytest.approx(0.5 * 2 ** (-123 / 60), rel=1e-4)
        again = await run(later, CONSOLIDATE, stages=["decay", "tiers"])
        assert changed(again) == {}
        assert changed(await run(later, CONSOLIDATE, stages=["expiry"])) == {"expiry": 1}
        for name in STAGES:
            answer = await run(later, CONSOLIDATE, stages=[name])
            assert [stage.stage for stage in answer.stages] == [name]


class TestWhatItDoes:
    """The rules, as they come out of the store."""

    async def test_what_is_exempt_stands(self, app: App) -> None:
        ids = {
            "anchor": await stored(app, "The anchor weighs nine tons.", kind="fact", anchor=True),
            "permanent": await stored(app, "The hull is of oak.", kind="fact", permanent=True),
            "preference": await stored(app, "The captain prefers tea.", kind="preference"),
            "error": await stored(app, "The pump fails in frost.", kind="error"),
        }
        before = await whole(app)
        for days in (10, 100, 400, 1000):
            await run(days_later(app, days), CONSOLIDATE)
        after = await whole(app)
        for memory_id in ids.values():
            assert after[memory_id].status is Status.ACTIVE
            assert after[memory_id].importance == pytest.approx(before[memory_id].importance)
            assert after[memory_id].tier is before[memory_id].tier
        assert (await run(days_later(app, 1001), CONSOLIDATE)).stages[0].looked == 0

    async def test_pieces_of_a_whole_grow_cold_but_stay(self, app: App) -> None:
        long = "\n\n".join(f"Paragraph {n} tells of the {WORDS[n % 10]} at length. " * 20 for n in range(9))
        document = (await remember(app, long, kind="fact")).id
        assert document is not None
        for days in (70, 150, 900):
            await run(days_later(app, days), CONSOLIDATE)
        parts = [one for one in (await whole(app)).values() if one.provenance.position is not None]
        assert len(parts) > 1
        assert {(one.tier, one.status) for one in parts} == {(Tier.COLD, Status.ACTIVE)}

    async def test_what_is_used_stays_and_what_is_used_much_becomes_an_anchor(self, app: App) -> None:
        used, unused = await many(app, 2, importance=0.85)
        for week in range(30):
            later = days_later(app, 7 * week)
            await app.engine.store.touch([used], later.engine.clock())
            answer = await run(days_later(app, 7 * week + 3), CONSOLIDATE)
            assert (await whole(app))[used].anchor == (week >= 9)
            if week == 9:
                [told] = [stage for stage in answer.stages if stage.stage == "anchors"]
                assert told.counts == {"anchored": 1}
        after = await whole(app)
        assert after[unused].status is Status.ARCHIVED
        assert after[used].importance == pytest.approx(0.85)
        assert after[used].utility == pytest.approx(0.85 * (1 + log(30)), rel=1e-4)

    async def test_a_touched_one_is_hot_again(self, app: App) -> None:
        [one] = await many(app, 1)
        await run(days_later(app, 70), CONSOLIDATE)
        assert (await whole(app))[one].tier is Tier.COLD
        await app.engine.store.touch([one], days_later(app, 71).engine.clock())
        await run(days_later(app, 72), CONSOLIDATE)
        assert (await whole(app))[one].tier is Tier.HOT
        await run(days_later(app, 79), CONSOLIDATE)
        assert (await whole(app))[one].tier is Tier.WARM

    async def test_what_was_shown_in_vain_sinks(self, app: App) -> None:
        shown, used = await many(app, 2)
        for _ in range(14):
            await app.engine.store.note_shown([shown, used], app.engine.clock())
        await app.engine.store.touch([used], app.engine.clock())
        answer = await run(app, CONSOLIDATE)
        assert changed(answer)["feedback"] == 1
        after = await whole(app)
        assert after[shown].usefulness == pytest.approx(-0.25)
        assert after[used].usefulness == 0
        assert "feedback" not in changed(await run(app, CONSOLIDATE))

    async def test_what_says_the_same_becomes_one(self, app: App) -> None:
        other = await stored(app, "Knives are kept in the galley.", kind="fact")
        first = await put(app, "The cook has a sharp knife.", kind=Kind.FACT, uses=3, importance=0.4)
        second = await put(app, "the cook has a sharp knife!", kind=Kind.FACT, uses=2, importance=0.7)
        await put(app, "The cook has a sharp knife 2.", kind=Kind.FACT)
        await put(app, "The cook has no sharp knife.", kind=Kind.FACT)
        await put(app, "The cook has a sharp knife", kind=Kind.FACT, agent="ada")
        await put(app, "The cook has a sharp knife", kind=Kind.FACT, topic="the other ship")
        await run(app, LINK, origin=first.id, target=other)
        answer = await run(app, CONSOLIDATE, stages=["duplicates"])
        assert changed(answer)["duplicates"] == 1
        after = await whole(app)
        assert after[first.id].status is Status.SUPERSEDED
        kept = after[second.id]
        assert (kept.status, kept.uses, kept.supersedes) == (Status.ACTIVE, 5, first.id)
        assert kept.importance == pytest.approx(0.7)
        links = await app.engine.store.links_of([second.id], viewer="system")
        assert {(link.origin, link.relation, link.target) for link in links} >= {
            (second.id, "related", other),
            (first.id, "superseded_by", second.id),
        }
        assert sum(one.status is Status.SUPERSEDED for one in after.values()) == 1

    async def test_a_fix_that_stands_three_times_becomes_one(self, app: App) -> None:
        wordings = (
            ("`npm run build` failed: Cannot find module 'vite'. Fixed by `npm install`.", Kind.ERROR),
            ("The build fails with Cannot find module 'vite' until you run npm install.", Kind.ERROR),
            (
                "npm run build says Cannot find module 'vite' when dependencies are missing; npm install fixes it.",
                Kind.GOTCHA,
            ),
        )
        other = "`npm run build` failed: Cannot find module 'vitest'. Fixed by `npm install`."
        same = [await put(app, text, kind=kind, uses=1) for text, kind in wordings]
        apart = await put(app, other, kind=Kind.ERROR)
        answer = await run(app, CONSOLIDATE, stages=["duplicates"])
        assert changed(answer)["duplicates"] == 2
        after = await whole(app)
        [kept] = [after[one.id] for one in same if after[one.id].status is Status.ACTIVE]
        assert kept.uses == 3
        assert after[apart.id].status is Status.ACTIVE

    async def test_of_twins_the_anchor_stays(self, app: App) -> None:
        loud = await put(app, "The bell is of bronze.", kind=Kind.FACT, importance=0.9)
        anchor = await put(app, "the bell is of bronze!", kind=Kind.FACT, importance=0.2, anchor=True)
        await run(app, CONSOLIDATE)
        after = await whole(app)
        assert after[loud.id].status is Status.SUPERSEDED
        assert after[anchor.id].status is Status.ACTIVE
        assert after[anchor.id].importance == pytest.approx(0.9)

    async def test_the_archive_is_found_when_asked_for(self, app: App) -> None:
        await stored(app, "The figurehead is a golden swan.", kind="fact")
        await evaluate(app.engine)
        await run(days_later(app, 130), CONSOLIDATE)
        assert await found(app, "figurehead swan") == []
        assert len(await found(app, "figurehead swan", statuses=["archived"])) == 1
        assert (await run(app, STATS)).by_status == {"archived": 1}

    async def test_what_was_archived_can_be_brought_back(self, app: App) -> None:
        [one] = await many(app, 1)
        await run(days_later(app, 130), CONSOLIDATE)
        await run(days_later(app, 140), UNFORGET, ids=[one])
        after = await run(days_later(app, 141), CONSOLIDATE)
        assert after.archived == []
        memory = (await whole(app))[one]
        assert (memory.status, memory.tier) == (Status.ACTIVE, Tier.WARM)
        assert (await run(days_later(app, 190), CONSOLIDATE)).archived == []
        assert [gone.id for gone in (await run(days_later(app, 261), CONSOLIDATE)).archived] == [one]

    async def test_feedback_is_reported_by_tool(self, app: App) -> None:
        for sufficient in (True, True, False):
            await run(app, FEEDBACK, tool_name="recall", relevant=True, sufficient=sufficient)
        stages = {stage.stage: stage for stage in (await run(app, CONSOLIDATE)).stages}
        assert stages["feedback"].detail == "recall 3 of 3 relevant, 2 sufficient"


class TestBounds:
    """In time and batch; broken off and gone on with."""

    async def test_jobs_get_the_time_that_is_left(self, opened: Open) -> None:
        async with opened(**{"embedding.provider": "none"}) as app:
            await many(app, 200)
        async with opened() as app:
            answer = await run(app, CONSOLIDATE, seconds=1e-6)
            model = app.engine.vector_source.model
            assert model is not None
            assert len(await app.engine.store.unembedded(model, limit=300)) == 200
            assert "stays queued" in answer.stages[-1].detail
            assert (await run(app, LIST_JOBS)).tally["waiting"] >= 1
            await run(app, CONSOLIDATE)
            assert await app.engine.store.unembedded(model, limit=1) == []

    async def test_a_dry_run_counts_a_merging_once(self, app: App) -> None:
        await put(app, "The cook has a sharp knife.", kind=Kind.FACT)
        await put(app, "the cook has a sharp knife!", kind=Kind.FACT)
        few = with_life(app, batch=1)
        for stages in ([], ["duplicates"]):
            dry = await run(few, CONSOLIDATE, dry_run=True, stages=stages)
            assert dry.counts["merged"] == 1

    async def test_the_job_goes_on_with_what_was_left_and_tells_nothing_of_nothing(self, app: App) -> None:
        await many(app, 25)
        hurried = with_life(days_later(app, 130), batch=10, seconds=1e-6)
        reports = []
        for minutes in (0, 1, 2, 3, 4):
            engine = at(hurried, hurried.engine.clock() + timedelta(minutes=minutes)).engine
            job = Job(engine.new_id(), "consolidate", created=engine.clock(), due=engine.clock())
            if minutes == 0:
                await engine.store.apply([Enqueue(job)])
            await Runner(engine, HANDLERS, owner="me").run_all(names=["consolidate"])
            reports.append(len((await run(app, CONSOLIDATION_REPORTS, limit=50)).reports))
        [*_, last] = sorted(
            (one for one in (await run(app, LIST_JOBS, limit=50)).jobs if one.name == "consolidate"),
            key=lambda one: one.created,
        )
        assert reports[-1] == reports[-2] == 3
        assert last.state == "done"
        assert await engine.store.cursor("optimised") == hurried.engine.clock().isoformat()

    async def test_it_stops_at_its_bounds_and_goes_on_there(self, app: App) -> None:
        await many(app, 35)
        later = with_life(days_later(app, 130), batch=10)
        seen = []
        for _ in range(4):
            answer = await run(later, CONSOLIDATE, seconds=1e-6)
            seen.append((answer.stages[0].looked, answer.stages[0].more, answer.counts["archived"]))
        assert seen == [(10, True, 10), (10, True, 10), (10, True, 10), (5, False, 5)]
        assert (await run(later, CONSOLIDATE, seconds=1e-6)).stages[0].looked == 0

    async def test_batches_make_no_difference(self, opened: Open, tmp_path: Path) -> None:
        states = []
        for batch in (1, 7, 500):
            async with opened(home=tmp_path / str(batch)) as app:
                ids = await many(app, 20)
                await app.engine.store.touch(ids[:5], days_later(app, 100).engine.clock())
                await run(with_life(days_later(app, 130), batch=batch), CONSOLIDATE)
                after = await whole(app)
                states.append([(after[one].status, after[one].tier, after[one].uses) for one in ids])
        assert states[0] == states[1] == states[2]

    async def test_one_that_was_killed_is_gone_on_with(self, app: App) -> None:
        await many(app, 30)
        later = with_life(days_later(app, 130), batch=10)
        killed = Meddled(later, after=2, act=_stop)
        with pytest.raises(_Stopped):
            await consolidate(killed.app.engine)
        assert sorted(one.status for one in (await whole(app)).values()).count(Status.ARCHIVED) == 10
        answer = await run(later, CONSOLIDATE)
        assert (answer.stages[0].looked, answer.counts["archived"]) == (20, 20)

    async def test_one_that_died_holding_it_keeps_others_off_for_minutes_only(self, app: App) -> None:
        await many(app, 5)
        later = days_later(app, 130)

        class Deaf:
            """As after a kill: nothing is let go of any more."""

            def __init__(self, store: Any) -> None:
                self._store = store

            def __getattr__(self, name: str) -> Any:
                return getattr(self._store, name)

            async def find(self, *_given: Any, **_named: Any) -> list[Memory]:
                raise _Stopped

            async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
                return new is not None and bool(await self._store.swap_cursor(name, old=old, new=new))

        dying = replace(later.engine, store=Deaf(later.engine.store))
        with pytest.raises(_Stopped):
            await consolidate(dying)
        busy = await run(later, CONSOLIDATE)
        assert (busy.stages, busy.operations) == ([], [])
        assert "under way" in busy.notice
        answer = await run(at(app, later.engine.clock() + timedelta(minutes=11)), CONSOLIDATE)
        assert answer.counts["archived"] == 5


class _Stopped(Exception):
    pass


async def _stop(_store: Any, _page: Sequence[Memory]) -> None:
    raise _Stopped


class Meddled:
    """The same store, where at a chosen moment somebody else does something."""

    def __init__(self, app: App, *, after: int, act: Any) -> None:
        """`act` is called when the page of that number was read, before anything is done to what is on it."""
        self.app = replace(app, engine=replace(app.engine, store=self))
        self._store = app.engine.store
        self._after = after
        self._act = act
        self._pages = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find(self, where: Filter, **named: Any) -> list[Memory]:
        page = await self._store.find(where, **named)
        if where.due is not None and named.get("order") is Order.DUE:
            self._pages += 1
            if self._pages == self._after:
                await self._act(self._store, page)
        return page


class Hooked:
    """The same store, where something happens just before a method does its work for the first time."""

    def __init__(self, app: App, method: str, act: Any, *, of: type = object) -> None:
        """`of`: before changes of that type."""
        self.app = replace(app, engine=replace(app.engine, store=self))
        self._store = app.engine.store
        self._method = method
        self._act = act
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._method or self._act is None:
            return found

        async def hooked(given: Any, **named: Any) -> Any:
            if self._act is not None and any(isinstance(one, self._of) for one in given):
                act, self._act = self._act, None
                await act()
            return await found(given, **named)

        return hooked


async def _fail() -> None:
    raise _Stopped


class TestBrokenOff:
    """Stopped between two writes: the next run makes it good."""

    async def test_of_a_merging_nothing_is_lost(self, app: App) -> None:
        kept = await put(app, "The cook has a sharp knife.", kind=Kind.FACT, importance=0.9)
        gone = await put(app, "the cook has a sharp knife!", kind=Kind.FACT, importance=0.5, uses=50)
        for of in (Mark, Inherit):
            with pytest.raises(_Stopped):
                await consolidate(Hooked(app, "apply", _fail, of=of).app.engine)
        await run(app, CONSOLIDATE)
        after = await whole(app)
        assert (after[kept.id].uses, after[gone.id].status) == (50, Status.SUPERSEDED)

    async def test_what_was_to_be_archived_is_at_the_next_run(self, app: App) -> None:
        [one] = await many(app, 1)
        later = days_later(app, 130)
        with pytest.raises(_Stopped):
            await consolidate(Hooked(later, "apply", _fail, of=Mark).app.engine)
        assert (await whole(app))[one].status is Status.ACTIVE
        assert [gone.id for gone in (await run(later, CONSOLIDATE)).archived] == [one]

    async def test_what_was_to_be_erased_is_at_the_next_run(self, app: App) -> None:
        [one] = await many(app, 1)
        await run(days_later(app, 130), CONSOLIDATE)
        later = days_later(app, 320)
        with pytest.raises(_Stopped):
            await consolidate(Hooked(later, "erase", _fail).app.engine)
        assert one in await whole(app)
        with pytest.raises(Refused, match="removed for good"):
            await run(later, UNFORGET, ids=[one])
        assert [gone.id for gone in (await run(later, CONSOLIDATE)).erased] == [one]
        assert await whole(app) == {}

    async def test_the_last_of_a_page_may_go_meanwhile(self, app: App) -> None:
        await many(app, 3)
        few = with_life(app, batch=1)

        async def erase(_store: Any, page: Sequence[Memory]) -> None:
            await run(app, FORGET, ids=[page[0].id], hard=True)

        report = await consolidate(Meddled(few, after=1, act=erase).app.engine, dry=True)
        assert (report.stages[0].looked, report.more) == (1, True)


class TestTogether:
    """While others read and write."""

    async def test_who_brings_back_what_is_about_to_go_is_told_the_truth(self, app: App) -> None:
        ids = await many(app, 4)
        await run(days_later(app, 130), CONSOLIDATE)
        later = days_later(app, 320)

        async def in_time() -> None:
            await run(later, UNFORGET, ids=[ids[0]])
            await run(later, AMEND, id=ids[3], anchor=True)

        async def too_late() -> None:
            with pytest.raises(Refused, match="removed for good"):
                await run(later, UNFORGET, ids=[ids[1]])

        hooked = Hooked(Hooked(later, "apply", in_time, of=Mark).app, "erase", too_late)
        report = await consolidate(hooked.app.engine)
        assert {told.memory_id for told in report.examples_of("erased")} == {ids[1], ids[2]}
        after = await whole(app)
        assert {name: one.status for name, one in after.items()} == {
            ids[0]: Status.ACTIVE,
            ids[3]: Status.ARCHIVED,
        }

    async def test_who_read_it_in_the_archive_before_it_left_is_told_too(self, app: App) -> None:
        [one] = await many(app, 1)
        await run(days_later(app, 130), CONSOLIDATE)
        later = days_later(app, 320)

        async def leave() -> None:
            with pytest.raises(_Stopped):
                await consolidate(Hooked(later, "erase", _fail).app.engine)

        with pytest.raises(Changed):
            await run(Hooked(later, "apply", leave, of=Mark).app, UNFORGET, ids=[one])

    async def test_what_is_made_permanent_at_that_moment_stays(self, app: App) -> None:
        [one] = await many(app, 1)
        later = days_later(app, 130)

        async def keep() -> None:
            await run(later, AMEND, id=one, permanent=True)

        await consolidate(Hooked(later, "apply", keep, of=Mark).app.engine)
        memory = (await whole(app))[one]
        assert (memory.status, memory.tier) == (Status.ACTIVE, Tier.PERMANENT)

    async def test_a_claim_lasts_as_long_as_the_work(self, app: App) -> None:
        now = [app.engine.clock()]
        engine = replace(app.engine, clock=lambda: now[0])
        go, renewed = asyncio.Event(), asyncio.Event()

        pauses = iter([go])

        async def pause() -> None:
            if (first := next(pauses, None)) is not None:
                await first.wait()
            else:
                renewed.set()
                await asyncio.Future()

        async with claim(engine, "work", pause=pause) as mine:
            now[0] += timedelta(minutes=8)
            go.set()
            await renewed.wait()
            now[0] += timedelta(minutes=8)
            async with claim(engine, "work") as second:
                assert (mine, second) == (True, False)
        async with claim(engine, "work") as third:
            assert third

    async def test_what_is_used_at_that_moment_stays(self, app: App) -> None:
        ids = await many(app, 5)
        later = days_later(app, 130)
        a_moment_later = later.engine.clock() + timedelta(milliseconds=1)

        async def use(store: Any, _page: Sequence[Memory]) -> None:
            await store.touch([ids[0]], a_moment_later)
            await store.note_shown([ids[1]], a_moment_later)

        answer = await consolidate(Meddled(later, after=1, act=use).app.engine)
        after = await whole(app)
        assert (after[ids[0]].status, after[ids[0]].tier, after[ids[0]].uses) == (Status.ACTIVE, Tier.HOT, 1)
        assert after[ids[1]].status is Status.ACTIVE
        assert {one.memory_id for one in answer.examples_of("archived")} == set(ids[2:])
        assert answer.counts()["archived"] == 3
        again = await run(at(app, a_moment_later + timedelta(seconds=1)), CONSOLIDATE)
        assert [one.id for one in again.archived] == [ids[1]]  # shown, but not used

    async def test_what_is_amended_forgotten_or_erased_at_that_moment_is_left_alone(self, app: App) -> None:
        ids = await many(app, 6)
        later = days_later(app, 130)
        moment = at(app, later.engine.clock() + timedelta(milliseconds=1))

        async def change(_store: Any, _page: Sequence[Memory]) -> None:
            await run(moment, AMEND, id=ids[0], content="The harbour was given up.", importance=0.3)
            await run(moment, FORGET, ids=[ids[1]])
            await run(moment, FORGET, ids=[ids[2]], hard=True)
            await run(moment, AMEND, id=ids[3], anchor=True)

        answer = await consolidate(Meddled(later, after=1, act=change).app.engine)
        after = await whole(app)
        amended = after[ids[0]]
        assert (amended.status, amended.content) == (Status.ACTIVE, "The harbour was given up.")
        assert amended.importance == pytest.approx(0.3)
        assert after[ids[1]].status is Status.FORGOTTEN
        assert ids[2] not in after
        assert (after[ids[3]].status, after[ids[3]].anchor) == (Status.ACTIVE, True)
        assert {one.memory_id for one in answer.examples_of("archived")} == set(ids[4:])

    async def test_twins_are_not_merged_into_what_was_changed(self, app: App) -> None:
        first = await put(app, "The cook has a sharp knife.", kind=Kind.FACT, importance=0.4)
        second = await put(app, "the cook has a sharp knife!", kind=Kind.FACT, importance=0.7)
        moment = at(app, app.engine.clock() + timedelta(seconds=1))

        async def change(_store: Any, _page: Sequence[Memory]) -> None:
            await run(moment, AMEND, id=second.id, content="The cook has lost all knives.")

        later = at(app, app.engine.clock() + timedelta(milliseconds=500))
        await consolidate(Meddled(later, after=1, act=change).app.engine)
        after = await whole(app)
        assert (after[first.id].status, after[second.id].status) == (Status.ACTIVE, Status.ACTIVE)
        assert after[second.id].uses == 0

    async def test_of_two_at_once_one_does_it(self, opened: Open) -> None:
        async with opened() as app, opened() as second:
            await many(app, 30)
            moment = app.engine.clock() + 130 * DAY
            answers = await asyncio.gather(*(run(at(one, moment), CONSOLIDATE) for one in (app, second)))
            idle = [one for one in answers if one.notice]
            assert sum(one.counts.get("archived", 0) for one in answers) == 30
            assert len(idle) <= 1
            assert len((await run(app, CONSOLIDATION_REPORTS)).reports) == 2 - len(idle)

    async def test_also_two_that_know_nothing_of_each_other_do_nothing_twice(self, opened: Open) -> None:
        async with opened() as app, opened() as second:
            ids = await many(app, 60)
            twins = [
                await put(app, text, kind=Kind.FACT, uses=4) for text in ("Oak is hard.", "oak is hard!")
            ]
            moment = app.engine.clock() + 130 * DAY
            moments = (moment, moment + timedelta(milliseconds=1))
            both = [with_life(at(*one), batch=10) for one in zip((app, second), moments, strict=True)]
            alone = [replace(one.engine, store=Unclaimed(one.engine.store)) for one in both]
            reports = await asyncio.gather(*(consolidate(engine) for engine in alone))
            after = await whole(app)
            assert {after[one].status for one in ids} == {Status.ARCHIVED}
            assert sorted(after[one.id].uses for one in twins) == [4, 8]
            assert after[ids[0]].importance == pytest.approx(0.5 * 2 ** (-123 / 60), rel=1e-4)
            assert sum(one.counts()["merged"] for one in reports) == 1

    async def test_clients_go_on_while_it_runs(self, opened: Open) -> None:
        async with opened() as app, opened() as client:
            ids = await many(app, 120)
            moment = app.engine.clock() + 130 * DAY
            now = at(client, moment + timedelta(seconds=1))
            kept, amended, forgotten = ids[:20], ids[20:40], ids[40:60]

            async def upkeep() -> None:
                for step in range(6):
                    await run(with_life(at(app, moment + step * timedelta(minutes=1)), batch=9), CONSOLIDATE)

            async def use() -> None:
                for one in kept:
                    await client.engine.store.touch([one], moment + timedelta(seconds=1))
                    await recall(now, "harbour crane", limit=3)

            async def change() -> None:
                for number, one in enumerate(amended):
                    await run(now, AMEND, id=one, content=f"Ship {number} was sold to the neighbours.")

            async def forget() -> None:
                for one in forgotten:
                    await run(now, FORGET, ids=[one])

            async def add() -> None:
                for number in range(20):
                    await stored(now, f"A new lighthouse stands on cliff {number}.")

            await asyncio.gather(upkeep(), use(), change(), forget(), add())
            after = await whole(app)
            assert min(after[one].uses for one in kept) >= 1  # recall used some of them, too
            assert {after[one].content.split()[2] for one in amended} == {"was"}
            assert {after[one].status for one in forgotten} == {Status.FORGOTTEN}
            unused = [one for one in ids[60:] if not after[one].uses]
            assert {after[one].status for one in unused} == {Status.ARCHIVED}
            new = [one for one in after.values() if "lighthouse" in one.content]
            assert {one.status for one in new} == {Status.ACTIVE}
            assert len(new) == 20
            lost = [one for one in (*kept, *amended) if after[one].status is Status.ARCHIVED]
            assert all(after[one].last_used is None or after[one].uses for one in lost)


class Unclaimed:
    """The same store, where everybody gets every claim."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def swap_cursor(self, _name: str, *, old: str | None, new: str | None) -> bool:
        return True


async def test_an_empty_store_needs_nothing(app: App) -> None:
    answer = await run(app, CONSOLIDATE)
    assert changed(answer).keys() <= {"index", "jobs"}
    assert await everything(app) == []
    assert isinstance(answer.seconds, float)
    assert (await run(app, STATS)).last_consolidated is not None
