"""get_memory_stats, backup_memory, restore_memory, optimize_memory, the scopes and export_memory."""

from __future__ import annotations

import csv
import hashlib
import json
import stat
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from assistant_door import DAY, NOW, keep, retrieved
from front_door import Open, at, everything, run
from tool_door import use

from mindhold.app.application import App
from mindhold.memories.forget import FORGET
from mindhold.memories.prepare import content_hash, labels_of
from mindhold.model.errors import Conflict
from mindhold.model.lexemes import lexemes
from mindhold.ports.store import Put

FACTS = ("The ferry leaves at noon.", "The guide is called Amaru.", "The pass is closed in May.")


async def test_counts_are_those_of_what_was_stored(app: App) -> None:
    for number in range(4):
        await keep(app, f"Leg {number} is {number + 30} miles long.", scope="Sailing")
    gone = await keep(app, "A slip of the tongue happened here.")
    await keep(app, "The insurance is paid.")
    await use(app, "delete_memory", target={"memory_id": gone})
    stats = (await use(app, "get_memory_stats"))["stats"]
    assert stats["total_memories"] == 5
    assert stats["scopes"] == {"Global": 1, "Sailing": 4}
    assert stats["db_size_mb"] > 0
    assert "last_backup" not in stats


async def test_a_backup_is_a_file_with_its_sum_and_the_stats_know_when(app: App, home: Path) -> None:
    for fact in FACTS:
        await keep(app, fact)
    answer = await use(app, "backup_memory")
    assert answer["status"] == "OK"
    file = home / "backups" / answer["backup_file"]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == answer["sha256"]
    assert answer["memories"] == len(FACTS)
    last = datetime.fromisoformat((await use(app, "get_memory_stats"))["stats"]["last_backup"])
    assert abs(last - app.engine.clock()) < DAY


async def test_a_backup_brings_back_what_was_lost_since(app: App) -> None:
    names = [await keep(app, fact) for fact in FACTS]
    made = (await use(app, "backup_memory"))["backup_file"]
    await run(app, FORGET, ids=names, hard=True)
    assert await everything(app) == []
    answer = await use(app, "restore_memory", backup_file=made)
    assert answer["restored_count"] == len(FACTS)
    assert answer["safety_backup"] != made
    for fact in FACTS:
        assert (await retrieved(app, fact))[0] == fact


async def test_a_backup_is_restored_in_an_empty_home(opened: Open, home: Path, tmp_path: Path) -> None:
    async with opened() as app:
        for number, fact in enumerate(FACTS):
            await keep(at(app, NOW - number * DAY), fact, scope="Andes", tags=["trip", f"day{number}"])
        before = {one.id: one for one in await everything(app, everywhere=True)}
        made = home / "backups" / (await use(app, "backup_memory"))["backup_file"]
    other = tmp_path / "other home"
    async with opened(home=other) as app:
        (other / "backups").mkdir(parents=True, exist_ok=True)
        for file in made.parent.glob(f"{made.name}*"):
            (other / "backups" / file.name).write_bytes(file.read_bytes())
        assert (await use(app, "restore_memory"))["restored_count"] == len(FACTS)
        after = {one.id: one for one in await everything(app, everywhere=True)}
        assert after == before
        assert (await use(app, "get_memory_stats"))["stats"]["scopes"]["Andes"] == len(FACTS)
        for fact in FACTS:
            assert (await retrieved(app, fact, scope="Andes"))[0] == fact


async def test_optimizing_removes_duplicates_and_says_so(app: App) -> None:
    engine = app.engine
    first = await keep(app, "The spare key hangs behind the clock.")
    kept = await engine.store.get(first, viewer="default")
    for said in ("the spare key hangs behind the clock", "The spare key hangs behind the clock!"):
        # As two servers write that don't know of each other yet: intake would not have let it in.
        twin = replace(kept, id=engine.new_id(), content=said, content_hash=content_hash(said))
        await engine.store.apply([Put(twin, lexemes(said), labels=labels_of(engine, twin))])
    assert len(await everything(app)) == 3
    answer = await use(app, "optimize_memory")
    assert answer["status"] == "OK"
    assert any("duplicate" in line and "2" in line for line in answer["operations"]), answer
    assert len(await everything(app)) == 1


async def test_optimizing_what_is_tidy_changes_nothing(app: App) -> None:
    for fact in FACTS:
        await keep(app, fact)
    assert (await use(app, "optimize_memory"))["status"] == "OK"
    assert {one.content for one in await everything(app)} == set(FACTS)


async def test_a_scope_is_made_listed_and_made_once(app: App) -> None:
    made = await use(app, "create_memory_scope", name="Astronomy", description="What the nights showed")
    assert (made["status"], made["scope"]) == ("OK", "Astronomy")
    listed = {one["name"]: one for one in (await use(app, "list_memory_scopes"))["scopes"]}
    assert listed.keys() == {"Global", "Astronomy"}
    assert listed["Astronomy"]["description"] == "What the nights showed"
    assert listed["Astronomy"]["active"]
    assert listed["Astronomy"]["memories"] == 0
    with pytest.raises(Conflict):
        await use(app, "create_memory_scope", name="Astronomy")


async def test_a_scopes_keywords_file_what_names_no_scope(app: App) -> None:
    await use(app, "create_memory_scope", name="Astronomy", related_keywords=["telescope", "nebula"])
    stored = await use(app, "store_memory", content="The telescope needs a new mirror.")
    assert stored["scope"] == "Astronomy"
    stored = await use(app, "store_memory", content="The car needs a new mirror.")
    assert stored["scope"] == "Global"
    stored = await use(app, "store_memory", content="A nebula is a cloud.", metadata={"scope": "Global"})
    assert stored["scope"] == "Global"


async def _exported(app: App, kind: str) -> Path:
    for number, fact in enumerate(FACTS):
        await keep(app, fact, scope="Andes" if number else "Global", tags=["trip"])
    answer = await use(app, "export_memory", format=kind)
    assert answer["memories"] == len(FACTS)
    return Path(answer["export_file"])


async def test_an_export_as_json_has_everything_by_scope(app: App, home: Path) -> None:
    file = await _exported(app, "json")
    assert file.parent == home / "export"
    document = file.read_text(encoding="utf-8")
    json.loads(document)
    assert all(fact in document for fact in FACTS)


async def test_an_export_as_csv_has_a_row_for_each(app: App) -> None:
    file = await _exported(app, "csv")
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    cells = [cell for row in rows for cell in row]
    assert all(cells.count(fact) == 1 for fact in FACTS)


async def test_an_export_as_markdown_is_to_be_read(app: App) -> None:
    document = (await _exported(app, "markdown")).read_text(encoding="utf-8")
    assert "# " in document
    assert all(fact in document for fact in FACTS)
    assert "Andes" in document


@pytest.mark.parametrize("kind", ["json", "csv", "markdown"])
async def test_an_export_is_its_owners_alone_and_says_what_it_is(app: App, kind: str) -> None:
    file = await _exported(app, kind)
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "personal" in file.read_text(encoding="utf-8").casefold()


async def test_an_export_of_a_scope_has_no_other(app: App) -> None:
    for number, fact in enumerate(FACTS):
        await keep(app, fact, scope="Andes" if number else "Global")
    answer = await use(app, "export_memory", scope="Andes", format="json")
    assert answer["memories"] == 2
    assert FACTS[0] not in Path(answer["export_file"]).read_text(encoding="utf-8")
