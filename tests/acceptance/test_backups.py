"""Backups and restores: everything survives, whoever writes meanwhile, and what was tampered with is refused."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from front_door import Open, acting, at, everything, found, recall, run, show, stored

from mindhold.access.keys import CREATE_KEY, LIST_KEYS
from mindhold.app.application import App
from mindhold.app.restore import drop_old, replace_all
from mindhold.backup.create import BACKUP, DROP_BACKUP, LIST_BACKUPS
from mindhold.backup.create import run_scheduled_backup as run_schedule
from mindhold.backup.restore import RESTORE, ReplaceResult
from mindhold.backup.verify import VERIFY_BACKUPS
from mindhold.lifecycle.stage_report import StageLimits
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.amend import AMEND
from mindhold.memories.export import export_stream
from mindhold.memories.feedback import FEEDBACK
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.memories.stats import STATS
from mindhold.model.errors import InvalidInput, NotFound, Refused, SchemaTooNew, StoreBusy, StoreDamaged
from mindhold.model.lexemes import lexemes
from mindhold.ports.backend import Record, SnapshotItem, SnapshotRemoval
from mindhold.ports.store import Put
from mindhold.projects.scope_operations import CREATE_SCOPE
from mindhold.settings.loader import LoadedSettings
from mindhold.testing.builders import Builder

Load = Callable[..., LoadedSettings]
SECRET = "eleven grey herons"
FRIDAY = datetime(2026, 3, 6, 9, 30, tzinfo=UTC)


def quiet(_step: str, _done: int, _total: int | None) -> None:
    pass


async def restored(loaded: LoadedSettings, file: str | None = None) -> ReplaceResult:
    return await replace_all(loaded, file, told=quiet)


def folder(loaded: LoadedSettings) -> Path:
    return loaded.settings.home / "backups"


async def filled(app: App) -> dict[str, str]:
    """Something of everything."""
    await run(app, CREATE_SCOPE, name="ship", keywords=["sea"])
    await run(app, CREATE_SCOPE, name="cabin", parent="ship")
    ids = {
        "amended": await stored(app, "The harbour has nine cranes.", kind="fact", tags=["Quay", "ß"]),
        "hers": await stored(acting(app, "ada"), "Ada keeps the key under the third pot.", scope="ship"),
        "hidden": await stored(app, "The safe is behind the mirror.", scope="cabin"),
        "linked": await stored(
            app, "The captain prefers tea.", scope="cabin", kind="preference", topic="tea"
        ),
    }
    await run(app, AMEND, id=ids["amended"], content="The harbour has ten cranes.", importance=0.9)
    await run(app, FORGET, ids=[ids["hidden"]])
    await run(app, LINK, origin=ids["amended"], target=ids["linked"], relation="caused_by")
    await run(app, CREATE_KEY, name="laptop", scopes=["ship"])
    await run(app, FEEDBACK, tool_name="recall", relevant=True, sufficient=False, memories=[ids["linked"]])
    items = [
        {"content": f"Crate {n} holds {n * 7} lamps of type {n % 13}.", "scope": "ship"} for n in range(700)
    ]
    await run(app, REMEMBER_MANY, items=items)
    await app.engine.use_counter.flush()
    return ids


async def all_of(app: App) -> tuple[list[str], dict[str, np.ndarray]]:
    """Everything that the store has, to be compared, and its vectors."""
    plain, vectors = [], {}
    house = await app.engine.store_registry.house(app.engine.store_registry.home)
    async for batch in house.snapshot():
        for one in batch:
            assert not isinstance(one, SnapshotRemoval)
            plain.append(repr(_comparable(one)))
            if isinstance(one, Record) and one.vector is not None:
                vectors[one.memory.id] = one.vector
    return sorted(plain), vectors


def _comparable(one: SnapshotItem) -> object:
    return one.memory if isinstance(one, Record) else one


async def test_everything_is_as_it_was(load: Load, opened: Open) -> None:
    async with opened() as app:
        ids = await filled(app)
        before, meant = await all_of(app)
        made = await run(app, BACKUP)
        assert (made.memories, made.vectors) == (len(meant), len(meant))
        await run(app, FORGET, ids=[ids["linked"]], hard=True)
        await run(app, AMEND, id=ids["amended"], content="The harbour has one crane.")
        after_all = await stored(app, "Everything is different now.")
    done = await restored(load())
    assert (done.file, done.memories, done.problems) == (made.file, made.memories, [])
    async with opened() as app:
        again, vectors = await all_of(app)
        assert again == before
        assert vectors.keys() == meant.keys()
        assert all(np.allclose(vectors[one], meant[one], atol=1e-3) for one in meant)
        assert ids["amended"] in await found(app, "harbour cranes")
        assert ids["linked"] in [link.id for link in (await show(app, ids["amended"])).links]
        assert (await run(app, LIST_KEYS)).keys[0].name == "laptop"
        assert after_all not in [memory.id for memory in await everything(app)]
        assert (await run(app, STATS)).embedded_ratio == 1.0
        assert (await run(app, DOCTOR)).healthy
        assert [one["name"] for one in (await run(app, STATUS)).backup["old"]] == [done.old[0].name]
    assert [one.name for one in (await drop_old(load(), None)).dropped] == [done.old[0].name]
    with pytest.raises(NotFound):
        await drop_old(load(), None)
    async with opened() as app:
        assert len((await all_of(app))[0]) == len(before)
        assert (await run(app, STATUS)).backup["old"] == []


async def test_what_is_written_meanwhile_is_in_it_whole_or_not_at_all(load: Load, opened: Open) -> None:
    build, stop = Builder("pair"), asyncio.Event()

    def pair() -> list[Put]:
        number = build.new_id()
        memories = [build.memory(f"{side} of {number}") for side in ("left", "right")]
        return [Put(memory, lexemes(memory.content)) for memory in memories]

    async with opened() as app, opened() as other:
        store = app.engine.store
        for _ in range(40):
            await store.apply([put for _ in range(25) for put in pair()])

        async def write(app: App) -> int:
            count = 0
            while not stop.is_set():
                await app.engine.store.apply(pair())
                count += 1
            return count

        writing = [asyncio.create_task(write(one)) for one in (app, other)]
        made = await run(app, BACKUP)
        stop.set()
        assert min(await asyncio.gather(*writing)) > 0
    await restored(load(), made.file)
    async with opened() as app:
        contents = {record.content for record in await everything_stored(app)}
    lefts = {content[len("left of ") :] for content in contents if content.startswith("left")}
    rights = {content[len("right of ") :] for content in contents if content.startswith("right")}
    assert lefts == rights
    assert len(lefts) >= 1000


async def everything_stored(app: App) -> list[object]:
    house = await app.engine.store_registry.house(app.engine.store_registry.home)
    return [one.memory async for batch in house.snapshot() for one in batch if isinstance(one, Record)]


async def test_nothing_is_replaced_while_somebody_uses_it(load: Load, opened: Open) -> None:
    async with opened() as app:
        await stored(app, "The harbour has nine cranes.")
        await run(app, BACKUP)
        later = await stored(app, "The captain prefers tea.")
        with pytest.raises(StoreBusy):
            await restored(load())
        assert later in [memory.id for memory in await everything(app)]
        assert (await run(app, STATUS)).backup["old"] == []
    assert (await restored(load())).memories == 1


async def test_a_restore_of_nothing_and_of_a_part_is_refused(load: Load, opened: Open) -> None:
    with pytest.raises(NotFound, match="no backup"):
        await restored(load())
    async with opened() as app:
        await run(app, CREATE_SCOPE, name="ship")
        kept = await stored(app, "The captain prefers tea.", scope="ship")
        gone = await run(app, FORGET, scope="ship", hard=True, confirm=True)
        assert gone.backup
        assert (await run(app, VERIFY_BACKUPS, file=gone.backup)).good
        with pytest.raises(NotFound):
            await restored(load())
        assert (await run(app, RESTORE, file=gone.backup)).memories == 1
        assert kept in [memory.id for memory in await everything(app)]
    with pytest.raises(Refused, match="doesn't hold everything"):
        await restored(load(), gone.backup)


async def test_into_an_empty_home(load: Load, opened: Open, tmp_path: Path) -> None:
    async with opened() as app:
        await filled(app)
        before, _ = await all_of(app)
        made = await run(app, BACKUP)
    elsewhere = load(home=tmp_path / "another")
    copies = folder(elsewhere)
    copies.mkdir(parents=True)
    for name in (made.file, f"{made.file}.sha256"):
        (copies / name).write_bytes((folder(load()) / name).read_bytes())
    assert (await restored(elsewhere)).memories == made.memories
    async with opened(home=tmp_path / "another") as app:
        assert (await all_of(app))[0] == before
        assert await recall(app, "harbour cranes")


async def test_an_encrypted_one_needs_its_passphrase_and_nothing_of_it_is_in_clear(
    load: Load, opened: Open
) -> None:
    sealed = {"backup.encrypt": True, "backup.passphrase": SECRET}
    async with opened(**sealed) as app:
        await filled(app)
        before, _ = await all_of(app)
        made = await run(app, BACKUP, name="closed")
        assert made.encrypted
        assert (await run(app, LIST_BACKUPS)).backups[0].encrypted
        assert (await run(app, VERIFY_BACKUPS)).good
        plain = await run(app, BACKUP, name="open", encrypt=False)
        raw = Path(made.path).read_bytes()
        assert b"harbour" not in raw
        assert SECRET.encode() not in raw
        assert (await run(app, RESTORE, file="closed")).skipped
        Path(plain.path).unlink()
    for wrong in ({}, {"backup.passphrase": "eleven grey geese"}):
        with pytest.raises(Refused, match=r"is encrypted|passphrase is not"):
            await restored(load(**wrong), "closed")
        async with opened(**wrong) as app:
            assert not (await run(app, VERIFY_BACKUPS, file="closed")).good
            with pytest.raises(Refused):
                await run(app, RESTORE, file="closed")
    await restored(load(**sealed), "closed")
    async with opened() as app:
        assert (await all_of(app))[0] == before


async def test_none_is_made_in_clear_that_should_be_encrypted(opened: Open) -> None:
    async with opened(**{"backup.encrypt": True}) as app:
        await stored(app, "The harbour has nine cranes.")
        with pytest.raises(Refused, match="no passphrase"):
            await run(app, BACKUP)
        stage = await run_schedule(app.engine, StageLimits())
        assert stage.detail.startswith("failed")
        assert (await run(app, LIST_BACKUPS)).backups == []
        assert "passphrase" in (await run(app, STATUS)).backup["problem"]
        finding = next(one for one in (await run(app, DOCTOR)).findings if one.name == "backups")
        assert (finding.healthy, "passphrase" in finding.detail) == (False, True)
    async with opened(**{"backup.encrypt": True, "backup.passphrase": SECRET}) as app:
        assert (await run_schedule(app.engine, StageLimits())).changed == 1
        assert (await run(app, STATUS)).backup["problem"] == ""
        assert [one.encrypted for one in (await run(app, LIST_BACKUPS)).backups] == [True]


def with_sum(path: Path, data: bytes) -> None:
    """As one would who can make sums, too."""
    path.write_bytes(data)
    path.with_name(f"{path.name}.sha256").write_text(
        f"{hashlib.sha256(data).hexdigest()}  {path.name}\n", encoding="utf-8"
    )


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def chunks(data: bytes) -> tuple[bytes, list[bytes]]:
    """The head of an encrypted backup, and its chunks."""
    start = len(b"MINDHOLD BACKUP\n")
    begin = start + 4 + int.from_bytes(data[start : start + 4], "big")
    found, place = [], begin
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "big")
        found.append(data[place:end])
        place = end
    return data[:begin], found


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
async def test_what_was_tampered_with_is_refused(load: Load, opened: Open, encrypted: bool) -> None:
    sealed = {"backup.encrypt": encrypted, "backup.passphrase": SECRET}
    async with opened(**sealed) as app:
        build = Builder()
        long = [build.memory(os.urandom(150_000).hex()) for _ in range(16)]  # more than one chunk
        await app.engine.store.apply([Put(memory, []) for memory in long])
        made = await run(app, BACKUP)
        path, whole = Path(made.path), Path(made.path).read_bytes()
        wrong: dict[str, bytes] = {
            f"flipped at {place}": flipped(whole, place)
            for place in (3, 30, 400, len(whole) // 2, len(whole) - 3)
        }
        wrong |= {"cut": whole[:-20], "cut in half": whole[: len(whole) // 2], "longer": whole + b"\0"}
        if encrypted:
            head, parts = chunks(whole)
            assert len(parts) > 2
            wrong["swapped"] = head + b"".join((parts[1], parts[0], *parts[2:]))
            wrong["one left out"] = head + b"".join((parts[0], *parts[2:]))
            wrong["the last left out"] = head + b"".join(parts[:-1])
            wrong["one twice"] = head + b"".join((parts[0], parts[0], *parts[1:]))
        for what, data in wrong.items():
            path.write_bytes(data)
            assert not (await run(app, VERIFY_BACKUPS, file=made.file)).good, what
            with_sum(path, data)
            proof = await run(app, VERIFY_BACKUPS, file=made.file)
            assert not proof.good, what
            assert proof.backups[0].problem
        with pytest.raises(Refused):
            await run(app, RESTORE, file=made.file)
        count = len(await everything(app))
    for what in ("cut", f"flipped at {len(whole) // 2}"):
        with_sum(path, wrong[what])
        with pytest.raises(Refused):
            await restored(load(**sealed), made.file)
    with_sum(path, whole)
    assert (await restored(load(**sealed), made.file)).memories == count == 16


async def test_backups_from_before_are_listed_proved_and_merged(load: Load, opened: Open) -> None:
    async with opened() as app:
        ids = await filled(app)
        text = io.StringIO()
        await export_stream(app.engine, text)
        path = folder(load()) / "backup-20250101T030000Z.jsonl.gz"
        with_sum(path, gzip.compress(text.getvalue().encode()))
        [listed] = (await run(app, LIST_BACKUPS)).backups
        assert (listed.file, listed.whole) == (path.name, False)
        assert (await run(app, VERIFY_BACKUPS, file=path.name)).good
        await run(app, FORGET, ids=[ids["linked"]], hard=True)
        assert (await run(app, RESTORE, file="backup-20250101T030000Z")).memories == 1
        assert ids["linked"] in [memory.id for memory in await everything(app)]
        with_sum(path, gzip.compress(b"not a line of it"))
        assert not (await run(app, VERIFY_BACKUPS, file=path.name)).good
    with pytest.raises(Refused, match="--merge"):
        await restored(load(), path.name)


async def test_they_are_for_their_owner_alone_and_leave_nothing_beside_them(load: Load, opened: Open) -> None:
    async with opened() as app:
        await filled(app)
        made = await run(app, BACKUP)
        await run(app, VERIFY_BACKUPS)
    names = sorted(path.name for path in folder(load()).iterdir())
    assert names == [made.file, f"{made.file}.sha256"]
    if os.name != "nt":
        assert stat.S_IMODE(folder(load()).stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder(load()).iterdir()} == {0o600}


async def test_one_is_dropped_by_its_name(app: App) -> None:
    await stored(app, "The harbour has nine cranes.")
    made = [(await run(app, BACKUP, name=name)).file for name in ("first", "second")]
    assert (await run(app, DROP_BACKUP, file="first")).dropped.file == made[0]
    assert [one.file for one in (await run(app, LIST_BACKUPS)).backups] == [made[1]]
    for name in ("first", "../home/config.toml", ""):
        with pytest.raises(NotFound):
            await run(app, DROP_BACKUP, file=name)
    with pytest.raises(InvalidInput):
        await run(app, VERIFY_BACKUPS, file="second", all=True)


async def test_one_a_day_by_itself_and_the_oldest_go(app: App) -> None:
    await stored(app, "The harbour has nine cranes.")
    by_hand = await run(at(app, FRIDAY - timedelta(days=90)), BACKUP, name="by-hand")
    for day in range(40):
        at_three = at(app, FRIDAY + timedelta(days=day))
        dry = await run_schedule(at_three.engine, StageLimits(dry=True))
        assert dry.changed == 1
        assert (await run_schedule(at_three.engine, StageLimits())).changed >= 1
        assert (
            await run_schedule(at(app, FRIDAY + timedelta(days=day, hours=5)).engine, StageLimits())
        ).changed == 0
    there = (await run(app, LIST_BACKUPS)).backups
    assert by_hand.file in [one.file for one in there]
    days = [one.created.date() for one in there if one.made in ("daily", "weekly")]
    last = (FRIDAY + timedelta(days=39)).date()
    assert days[:7] == [last - timedelta(days=n) for n in range(7)]
    weekly = [one.created.date() for one in there if one.made == "weekly"]
    assert len(weekly) == 4
    assert all(day.isoweekday() == 1 for day in weekly)
    assert len(days) == 7 + sum(day not in days[:7] for day in weekly)
    assert (await run(app, VERIFY_BACKUPS, all=True)).good
    switched_off = replace(
        app.engine,
        settings=replace(app.engine.settings, backup=replace(app.engine.settings.backup, schedule=False)),
    )
    assert (await run_schedule(switched_off, StageLimits())).changed == 0


@pytest.mark.local_file
async def test_a_damaged_database_names_the_last_good_backup(load: Load, opened: Open) -> None:
    async with opened() as app:
        kept = await stored(app, "The harbour has nine cranes.")
        good = await run(app, BACKUP, name="good")
        bad = await run(at(app, app.engine.clock() + timedelta(hours=1)), BACKUP, name="bad")
    Path(bad.path).write_bytes(flipped(Path(bad.path).read_bytes(), 700))
    path = load().settings.database
    path.write_bytes(b"SQLite format 3\0" + os.urandom(20_000))
    with pytest.raises(StoreDamaged, match="is damaged") as told:
        async with opened():
            pass
    assert f"`mindhold restore {good.file}`" in told.value.advice
    done = await restored(load(), good.file)
    assert done.old[0].bytes == 20_016
    async with opened() as app:
        assert [memory.id for memory in await everything(app)] == [kept]
        assert (await run(app, DOCTOR)).healthy


@pytest.mark.local_file
async def test_one_of_an_older_schema_is_migrated_and_one_of_a_newer_refused(
    load: Load, opened: Open
) -> None:
    from mindhold.stores.sqlite.connection import latest

    async with opened() as app:
        kept = await stored(app, "The harbour has nine cranes.", keywords=["crane"])
    with closing(sqlite3.connect(load().settings.database)) as connection, connection:
        connection.execute("DROP INDEX memory_turn")
        connection.execute("DROP INDEX memory_updated")
        connection.execute("PRAGMA user_version = 4")
    older = await raw_backup(load(), "older")
    with closing(sqlite3.connect(load().settings.database)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {latest() + 1}")
    newer = await raw_backup(load(), "newer")
    with pytest.raises(SchemaTooNew, match="knows up to"):
        await restored(load(), newer)
    await restored(load(), older)
    async with opened() as app:
        assert [memory.id for memory in await everything(app)] == [kept]
        assert (await run(app, DOCTOR)).healthy


async def raw_backup(loaded: LoadedSettings, name: str) -> str:
    """What an earlier or a later version would write."""
    from mindhold.backup.file_format import BackupHead, BackupWriter
    from mindhold.model.memory import content_sum
    from mindhold.ports.backend import Totals

    with closing(sqlite3.connect(loaded.settings.database)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in "vector version link scope job entry cursor".split()
        ]
        memories, content = content_sum(connection.execute("SELECT id, content_hash FROM memory"))
    stream = io.BytesIO()
    writer = BackupWriter(stream, BackupHead(datetime.now(UTC), "local"), None)
    writer.begin("local", "sqlite")
    writer.write(loaded.settings.database.read_bytes())
    writer.end(Totals(memories, *counts, content=content))
    writer.finish()
    writer.close()
    with_sum(folder(loaded) / f"{name}.backup", stream.getvalue())
    return name
