"""The audit trail and retired scopes, through the front door."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from front_door import acting, at, everything, found, recall, run, stored

from mindhold.app.application import App
from mindhold.backup.create import LIST_BACKUPS
from mindhold.backup.restore import RESTORE
from mindhold.lifecycle.archive import UNDO_AUDIT
from mindhold.lifecycle.audit import LIST_AUDIT, MOST, SHOW_AUDIT, audit_records, write_audit_record
from mindhold.lifecycle.maintenance_operations import CONSOLIDATE, CONSOLIDATION_REPORTS
from mindhold.lifecycle.stage_report import StageExample
from mindhold.memories.context import CONTEXT
from mindhold.memories.evaluation import evaluate
from mindhold.memories.filters import LIST, TAGS
from mindhold.memories.forget import FORGET, UNFORGET
from mindhold.memories.links import EXPLORE, LINK
from mindhold.memories.timeline import TIMELINE
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused, ScopeNotFound
from mindhold.projects.scope_operations import CREATE_SCOPE, LIST_SCOPES, RETIRE_SCOPE, REVIVE_SCOPE

DAY = timedelta(days=1)


def later(app: App, days: float) -> App:
    return at(app, app.engine.clock() + days * DAY)


async def archived(app: App, *contents: str) -> tuple[App, list[str]]:
    """Memories that a consolidation put away, and the moment of that."""
    ids = [await stored(app, one, kind="fact") for one in contents]
    await evaluate(app.engine)
    away = later(app, 200)
    await run(away, CONSOLIDATE)
    return away, ids


class TestRecords:
    async def test_a_consolidation_is_in_the_one_book(self, app: App) -> None:
        away, ids = await archived(app, "The harbour has nine cranes.", "The pier is of oak.")
        [kept] = (await run(away, LIST_AUDIT)).records
        assert (kept.what, kept.who, kept.counts["archived"]) == ("consolidation", "system", 2)
        assert "expiry: 2 archived" in kept.operations
        assert kept.back == f"mindhold audit undo {kept.id}"
        shown = await run(away, SHOW_AUDIT, id=kept.id[:10])
        told = {one.id: one.why for one in shown.memories if one.what == "archived"}
        assert told.keys() == set(ids)
        assert all(why.startswith("unused for 200 days") for why in told.values())
        assert len((await run(away, CONSOLIDATION_REPORTS)).reports) == 1

    async def test_no_word_of_a_memory_is_in_it(self, app: App) -> None:
        away, [one] = await archived(app, "The quixotic lighthouse burns peat.")
        [kept] = (await run(away, LIST_AUDIT)).records
        assert "quixotic" not in (await run(away, SHOW_AUDIT, id=kept.id)).model_dump_json()
        await run(away, FORGET, ids=[one], hard=True)
        shown = await run(away, SHOW_AUDIT, id=kept.id)
        assert one not in shown.model_dump_json(), "what was erased is named no more"
        assert (await run(away, UNDO_AUDIT, id=kept.id)).count == 0

    async def test_undoing_brings_back_what_is_archived_still(self, app: App) -> None:
        away, ids = await archived(
            app, "The harbour has nine cranes.", "The pier is of oak.", "The quay is wet."
        )
        await run(away, UNFORGET, ids=ids[:1])
        await run(away, FORGET, ids=ids[1:2])
        [kept] = (await run(away, LIST_AUDIT)).records
        done = await run(away, UNDO_AUDIT, id=kept.id)
        assert (done.restored, done.passed_over) == (ids[2:], 2)
        assert await found(away, "quay wet") == [ids[2]]
        assert (await run(away, UNDO_AUDIT, id=kept.id)).count == 0
        newest = (await run(away, LIST_AUDIT)).records[0]
        assert newest.what == "undo"
        assert kept.id in newest.operations[0]
        await run(later(away, 20), CONSOLIDATE)
        assert await found(away, "quay wet") == [ids[2]], "what was brought back rests from then"

    async def test_what_was_said_anew_stays_in_the_archive(self, app: App) -> None:
        away, [_, other] = await archived(app, "The harbour has nine cranes.", "The pier is of oak.")
        await stored(away, "The harbour has nine cranes.", kind="fact")
        [kept] = (await run(away, LIST_AUDIT)).records
        done = await run(away, UNDO_AUDIT, id=kept.id)
        assert (done.restored, done.passed_over) == ([other], 1)

    async def test_there_are_never_too_many(self, app: App) -> None:
        """The oldest make room."""
        start, chance = app.engine.clock(), random.Random(5)
        for number in range(MOST + 3):
            now = replace(app.engine, clock=lambda moment=start + timedelta(seconds=number): moment)
            ids = [StageExample(f"{chance.getrandbits(64):x}", "archived", "why")]
            await write_audit_record(now, "retention", memories=ids, operations=[f"run {number}"])
        kept = await audit_records(later(app, 1).engine, limit=MOST + 10)
        assert len(kept) == MOST
        assert kept[0].operations == (f"run {MOST + 2}",)
        assert await audit_records(later(app, 6 * 365).engine, limit=10) == []

    async def test_what_there_is_none_of(self, app: App) -> None:
        assert (await run(app, LIST_AUDIT)).records == []
        with pytest.raises(NotFound):
            await run(app, SHOW_AUDIT, id="nothing")
        one = await write_audit_record(app.engine, "retention", operations=["something"])
        with pytest.raises(NotFound):
            await run(app, SHOW_AUDIT, id=one.id[:2])
        await write_audit_record(app.engine, "retention", operations=["something"], key=one.id[:-1] + "_")
        with pytest.raises(InvalidInput, match="begins several"):
            await run(app, SHOW_AUDIT, id=one.id[:-1])


class TestRetiredScopes:
    async def _made(self, app: App) -> tuple[str, str]:
        await run(app, CREATE_SCOPE, name="mill")
        one = await stored(app, "The mill grinds barley.", scope="mill", tags=["grain"])
        other = await stored(app, "Barley is sold on Fridays.", tags=["grain"])
        await run(app, LINK, origin=one, target=other)
        return one, other

    async def test_only_who_names_it_finds_it(self, app: App) -> None:
        one, other = await self._made(app)
        assert set(await found(app, "barley", everywhere=True)) == {one, other}
        done = await run(app, RETIRE_SCOPE, name="mill")
        assert (done.memories, done.deleted) == (1, False)
        assert await found(app, "barley", everywhere=True) == [other]
        assert await found(app, "", tags=["grain"], everywhere=True) == [other]
        assert await found(app, "", keywords=["barley"], everywhere=True) == [other]
        assert [one.id for one in await everything(app)] == [other]
        assert (await run(app, TAGS)).tags == {"grain": 1}
        days = (await run(app, TIMELINE)).days
        assert [memory.id for day in days for memory in day.memories] == [other]
        linked = (await recall(app, "barley Fridays", everywhere=True, links=True)).hits[0].links
        assert [link.id for link in linked] == []
        assert (await run(app, EXPLORE, start=other)).nodes == []
        assert "mill" not in (await run(app, CONTEXT)).model_dump_json()
        assert one in await found(app, "barley", scope="mill")
        assert [memory.id for memory in (await run(app, LIST, scope="mill")).memories] == [one]
        [scope] = [scope for scope in (await run(app, LIST_SCOPES)).scopes if scope.name == "mill"]
        assert not scope.active

    async def test_it_is_put_aside_and_told(self, app: App) -> None:
        await self._made(app)
        done = await run(app, RETIRE_SCOPE, name="mill")
        assert done.backup in [one.file for one in (await run(app, LIST_BACKUPS)).backups]
        [kept] = (await run(app, LIST_AUDIT)).records
        assert (kept.id, kept.what, kept.scope) == (done.audit, "scope retirement", "mill")
        assert kept.files == [done.backup]

    async def test_it_is_revived_by_name_or_by_its_record(self, app: App) -> None:
        one, _ = await self._made(app)
        await run(app, RETIRE_SCOPE, name="mill")
        assert (await run(app, REVIVE_SCOPE, name="mill")).active
        assert one in await found(app, "barley", everywhere=True)
        done = await run(app, RETIRE_SCOPE, name="mill")
        assert "mill is switched on again" in (await run(app, UNDO_AUDIT, id=done.audit)).note
        assert one in await found(app, "barley", everywhere=True)

    async def test_deleted_it_comes_back_from_the_file(self, app: App) -> None:
        one, _ = await self._made(app)
        done = await run(app, RETIRE_SCOPE, name="mill", delete=True)
        assert done.receipt is not None
        assert one not in [memory.id for memory in await everything(app, statuses=["active", "archived"])]
        assert "mill" not in [scope.name for scope in (await run(app, LIST_SCOPES)).scopes]
        [kept] = (await run(app, LIST_AUDIT)).records
        assert kept.back == f"mindhold restore {done.backup} --merge"
        assert (await run(app, RESTORE, file=done.backup)).memories == 1
        assert one in await found(app, "barley", scope="mill")

    async def test_some_can_t_be(self, app: App) -> None:
        with pytest.raises(Refused):
            await run(app, RETIRE_SCOPE, name="Global")
        with pytest.raises(ScopeNotFound):
            await run(app, RETIRE_SCOPE, name="nowhere")
        await run(app, CREATE_SCOPE, name="mill")
        await run(app, CREATE_SCOPE, name="wheel", parent="mill")
        with pytest.raises(Conflict):
            await run(app, RETIRE_SCOPE, name="mill", delete=True)
        await stored(acting(app, "ada"), "The wheel is Ada's.", scope="wheel")
        with pytest.raises(Refused):
            await run(app, RETIRE_SCOPE, name="wheel", delete=True)
        assert [scope.active for scope in (await run(app, LIST_SCOPES)).scopes] == [True, True, True]
