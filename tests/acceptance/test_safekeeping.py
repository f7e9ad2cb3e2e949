"""Stats, backup and restore."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, at, everything, recall, run, show, stored

from mindhold.app.application import App
from mindhold.backup.create import BACKUP, LIST_BACKUPS
from mindhold.backup.restore import RESTORE
from mindhold.lifecycle.maintenance_operations import CONSOLIDATE
from mindhold.memories.amend import AMEND
from mindhold.memories.export import export_stream
from mindhold.memories.forget import FORGET
from mindhold.memories.importer import import_lines
from mindhold.memories.links import LINK
from mindhold.memories.stats import STATS
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused
from mindhold.model.scope import Caller
from mindhold.operations import Operation
from mindhold.projects.scope_operations import CREATE_SCOPE


def folder(app: App) -> Path:
    return app.loaded.settings.home / "backups"


async def filled(app: App) -> list[str]:
    await run(app, CREATE_SCOPE, name="ship")
    first = await stored(app, "The harbour has nine cranes.", kind="fact")
    second = await stored(app, "The captain prefers tea.", scope="ship", kind="preference", tags=["tea"])
    await run(app, LINK, origin=first, target=second)
    await run(app, AMEND, id=first, content="The harbour has ten cranes.")
    return [first, second]


async def test_stats_count_what_there_is(app: App) -> None:
    empty = await run(app, STATS)
    assert (empty.total, empty.embedded_ratio, empty.links, empty.last_backup) == (0, 0.0, 0, None)
    _, second = await filled(app)
    gone = await stored(app, "The lamp is on the left.", permanent=True)
    await run(app, FORGET, ids=[gone], force=True)
    stats = await run(app, STATS)
    assert stats.total == 2
    assert stats.by_status == {"active": 2, "forgotten": 1}
    assert stats.by_kind == {"fact": 1, "preference": 1}
    assert stats.by_tier == {"warm": 2}
    assert stats.by_scope == {"Global": 1, "ship": 1}
    assert stats.by_agent == {"default": 2}
    assert (stats.embedded, stats.embedded_ratio, stats.links) == (2, 1.0, 1)
    assert stats.bytes_used > 0
    assert (stats.last_consolidated, stats.conversations) == (None, 0)
    await run(app, FORGET, ids=[second])
    assert (await run(app, STATS)).links == 0


async def test_a_backup_holds_everything_and_proves_it(app: App) -> None:
    await filled(app)
    made = await run(app, BACKUP)
    assert (made.memories, made.versions, made.links, made.scopes) == (2, 1, 1, 2)
    path = Path(made.path)
    assert path.parent == folder(app)
    assert (path.name, path.stat().st_size) == (made.file, made.bytes)
    assert (folder(app) / f"{made.file}.sha256").read_text(encoding="utf-8").split() == [
        made.sha256,
        made.file,
    ]
    [listed] = (await run(app, LIST_BACKUPS)).backups
    assert (listed.file, listed.sha256, listed.bytes) == (made.file, made.sha256, made.bytes)
    assert (await run(app, STATS)).last_backup == listed.created
    assert sorted(item.name for item in folder(app).iterdir()) == [made.file, f"{made.file}.sha256"]


async def test_what_was_erased_comes_back(app: App) -> None:
    first, second = await filled(app)
    made = await run(app, BACKUP, name="before-the-storm")
    assert made.file == "before-the-storm.backup"
    await run(app, FORGET, ids=[first], hard=True)
    later = await stored(app, "The cook has a new knife.")
    for file in (made.file, "before-the-storm"):
        back = await run(app, RESTORE, file=file)
        assert back.file == made.file
    assert (back.memories, back.skipped) == (0, 2)
    assert back.note
    assert {memory.id for memory in await everything(app)} == {first, second, later}
    shown = await show(app, first)
    assert shown.memory.content == "The harbour has ten cranes."
    assert [version.content for version in shown.versions] == ["The harbour has nine cranes."]
    assert [link.id for link in shown.links] == [second]
    assert first in [hit.id for hit in (await recall(app, "harbour cranes")).hits]


async def test_the_newest_is_restored_after_everything_was_put_aside(app: App) -> None:
    await stored(app, "The harbour has nine cranes.")
    await run(app, BACKUP)
    second = await stored(app, "The captain prefers tea.")
    newest = await run(at(app, app.engine.clock() + timedelta(seconds=5)), BACKUP)
    await run(app, FORGET, ids=[second], hard=True)
    for _ in range(2):
        back = await run(at(app, app.engine.clock() + timedelta(seconds=9)), RESTORE)
        assert back.file == newest.file
        assert back.safety in [one.file for one in (await run(app, LIST_BACKUPS)).backups]
    assert len(await everything(app)) == 2


async def test_two_at_once_are_two(app: App) -> None:
    now = app.engine.clock()
    names = [(await run(at(app, now), BACKUP)).file for _ in range(3)]
    assert len(set(names)) == 3
    with pytest.raises(Conflict):
        await run(app, BACKUP, name=names[0])


async def test_many_at_the_same_time_are_all_made_and_all_whole(opened: Open) -> None:
    async with opened() as app, opened() as second:
        await filled(app)
        now = app.engine.clock()
        made = await asyncio.gather(*(run(at(one, now), BACKUP) for one in (app, second) for _ in range(6)))
        assert len({one.file for one in made}) == 12
        assert {one.memories for one in made} == {2}
        for one in made:
            assert (await run(app, RESTORE, file=one.file)).skipped == 2
        assert [path.name for path in folder(app).iterdir() if path.name.startswith(".")] == []


async def test_of_two_that_want_one_name_one_gets_it(app: App) -> None:
    await filled(app)
    made = await asyncio.gather(
        *(run(app, BACKUP, name=name) for name in ("harbour", "harbour", "Harbour")), return_exceptions=True
    )
    assert sum(isinstance(one, Conflict) for one in made) == 2
    assert (await run(app, RESTORE, file="HARBOUR")).skipped == 2


async def test_a_disk_without_links_will_do(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    await filled(app)
    now = app.engine.clock()
    made = await asyncio.gather(*(run(at(app, now), BACKUP) for _ in range(3)))
    assert len({one.file for one in made}) == 3
    assert (await run(app, RESTORE, file=made[-1].file)).skipped == 2


async def test_others_are_served_while_much_is_written_and_read(app: App) -> None:
    ours = threading.get_ident()
    await filled(app)

    class Sheet(io.StringIO):
        def write(self, text: str, /) -> int:
            assert threading.get_ident() != ours
            return super().write(text)

    sheet = Sheet()
    await export_stream(app.engine, sheet)

    def lines() -> Iterator[str]:
        assert threading.get_ident() != ours
        yield from sheet.getvalue().splitlines()

    assert (await import_lines(app.engine, lines(), agent="system")).skipped == 2


@pytest.mark.parametrize(
    "name",
    [
        "CON",
        "nul",
        "aux.old",
        "Com1",
        "lpt9",
        "Scope-x",
        "Before-Restore-x",
        "../out",
        "a/b",
        "a\\b",
        "",
        " ",
        ".hidden",
        "scope-x",
        "before-restore-x",
        "x" * 101,
        "nul\0",
    ],
)
async def test_a_name_cannot_lead_elsewhere(app: App, name: str) -> None:
    with pytest.raises(InvalidInput):
        await run(app, BACKUP, name=name)
    with pytest.raises(NotFound):
        await run(app, RESTORE, file=name)
    assert list(folder(app).iterdir()) == []


async def test_nothing_can_be_restored_from_nothing(app: App) -> None:
    with pytest.raises(NotFound, match="no backup"):
        await run(app, RESTORE)


async def test_a_file_that_was_changed_is_refused_and_nothing_is_touched(app: App) -> None:
    await filled(app)
    made = await run(app, BACKUP)
    path = Path(made.path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(Refused, match="sum differs"):
        await run(app, RESTORE, file=made.file)
    path.write_bytes(whole)
    path.with_name(f"{path.name}.sha256").unlink()
    with pytest.raises(Refused, match="no sum"):
        await run(app, RESTORE, file=made.file)
    assert [one.file for one in (await run(app, LIST_BACKUPS)).backups] == [made.file]


async def test_what_concerns_everybody_is_the_owners(app: App) -> None:
    guest = Caller("ada", bound=True, owner=False)
    owners: list[Operation[Any, Any]] = [BACKUP, LIST_BACKUPS, RESTORE, CONSOLIDATE]
    for operation in owners:
        with pytest.raises(Refused):
            await app.run(operation, operation.takes(), caller=guest)
    assert (await app.run(STATS, STATS.takes(), caller=guest)).total == 0
