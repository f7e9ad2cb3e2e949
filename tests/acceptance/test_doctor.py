"""The doctor: a healthy store is healthy, damage is found and named, what is derived is mended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from front_door import Open, everything, found, raw, recall, run, stored

from mindhold.app.application import App
from mindhold.lifecycle.status import DOCTOR, STATUS, DoctorResult
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.model.errors import SchemaTooNew, StoreDamaged

QUESTION = "zebra striped number"
HAS_MODES = sys.platform != "win32"


async def furnish(app: App) -> list[str]:
    ids = [await stored(app, f"Zebra number {number} is striped.", tags=["zebra"]) for number in range(12)]
    await run(app, LINK, origin=ids[0], target=ids[1])
    await run(app, AMEND, id=ids[2], content="Zebra number 2 is rather striped.")
    await run(app, FORGET, ids=[ids[3]])
    await run(app, FORGET, ids=[ids[4]], hard=True)
    return ids


def unhealthy(answer: DoctorResult) -> set[str]:
    return {finding.name for finding in answer.findings if not finding.healthy}


@pytest.mark.parametrize("provider", ["hashing", "none"])
async def test_a_healthy_store_is_healthy(opened: Open, provider: str) -> None:
    async with opened(**{"embedding.provider": provider}) as app:
        assert (await run(app, DOCTOR)).healthy
        await furnish(app)
        answer = await run(app, DOCTOR)
        assert (unhealthy(answer), answer.healthy) == (set(), True)


async def test_a_model_that_is_wanted_but_not_here_is_told_with_advice(opened: Open) -> None:
    async with opened(**{"embedding.provider": "local"}) as app:
        answer = await run(app, DOCTOR)
        [finding] = [finding for finding in answer.findings if finding.name == "models"]
        assert not finding.healthy
        assert "models pull" in finding.advice


async def test_repairing_a_healthy_store_changes_no_answer(app: App) -> None:
    await furnish(app)
    before, memories = (await recall(app, QUESTION, count_use=False)).hits, await everything(app)
    answer = await run(app, DOCTOR, repair=True)
    assert answer.healthy
    assert (await recall(app, QUESTION, count_use=False)).hits == before
    assert await everything(app) == memories


DAMAGE = {
    "index rows": "DELETE FROM lexeme_data WHERE id > 10",
    "vector codes": "DELETE FROM vector_code WHERE row % 2 = 0",
    "vectors": "DELETE FROM vector WHERE row % 2 = 0",
    "all vectors": "DELETE FROM vector",
    "the model's name": "UPDATE memory SET embedded_by = 'other' WHERE row % 2 = 0",
    "a link with one end": "PRAGMA foreign_keys = OFF; INSERT INTO link VALUES (1, 999, 'related', 0, 1.0, 0)",
}


@pytest.mark.local_file
@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_to_what_is_derived_is_found_and_mended(opened: Open, damage: str) -> None:
    async with opened() as app:
        await furnish(app)
        before = (await recall(app, QUESTION, count_use=False)).hits
    async with opened() as app:
        with raw(app) as database:
            database.executescript(DAMAGE[damage])
        found_by_doctor = await run(app, DOCTOR)
        assert not found_by_doctor.healthy
        assert all(f.advice for f in found_by_doctor.findings if not f.healthy)
        mended = await run(app, DOCTOR, repair=True)
        assert mended.repaired
        assert unhealthy(mended) == set()
        assert (await recall(app, QUESTION, count_use=False)).hits == before
    async with opened() as app:
        assert (await recall(app, QUESTION, count_use=False)).hits == before


@pytest.mark.local_file
async def test_codes_that_are_wrong_are_mended(opened: Open) -> None:
    async with opened() as app:
        await furnish(app)
        before = await found(app, QUESTION)
        with raw(app) as database:
            database.execute("UPDATE vector_code SET code = (SELECT code FROM vector_code WHERE row = 1)")
    async with opened() as app:
        await run(app, DOCTOR, repair=True)
        assert await found(app, QUESTION) == before


@pytest.mark.local_file
async def test_a_second_process_sees_what_was_mended(opened: Open) -> None:
    async with opened() as app, opened() as second:
        await furnish(app)
        before = (await recall(second, QUESTION, count_use=False)).hits
        with raw(app) as database:
            database.executescript(DAMAGE["vector codes"])
        await run(app, DOCTOR, repair=True)
        assert (await recall(second, QUESTION, count_use=False)).hits == before


@pytest.mark.local_file
async def test_a_damaged_file_is_named(opened: Open, home: Path) -> None:
    async with opened() as app:
        await furnish(app)
    file = home / "data" / "mindhold.db"
    file.write_bytes(b"This is no database at all. " * 400)
    with pytest.raises(StoreDamaged, match=r"mindhold\.db"):
        async with opened():
            pass


@pytest.mark.local_file
async def test_a_newer_schema_is_refused_with_advice_and_left_alone(opened: Open, home: Path) -> None:
    async with opened() as app:
        await furnish(app)
        with raw(app) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            database.execute(f"PRAGMA user_version = {version + 1}")
    before = (home / "data" / "mindhold.db").read_bytes()
    with pytest.raises(SchemaTooNew) as caught:
        async with opened():
            pass
    assert caught.value.advice
    assert (home / "data" / "mindhold.db").read_bytes() == before


async def test_a_home_that_others_may_read_is_told(app: App, home: Path) -> None:
    assert unhealthy(await run(app, DOCTOR)) == set()
    home.chmod(0o755)
    answer = await run(app, DOCTOR)
    assert unhealthy(answer) == ({"home folder"} if HAS_MODES else set())
    assert any("chmod" in finding.advice for finding in answer.findings) is HAS_MODES


@pytest.mark.local_file
async def test_a_database_that_others_may_read_is_told(app: App, home: Path) -> None:
    (home / "data" / "mindhold.db").chmod(0o644)
    assert unhealthy(await run(app, DOCTOR)) == ({"permissions", "home folder"} if HAS_MODES else set())


async def test_status_counts_what_is_there(app: App) -> None:
    await furnish(app)
    status = await run(app, STATUS)
    assert status.memories == 10
    assert status.by_status == {"active": 10, "forgotten": 1}
    assert (status.by_scope, status.by_kind, status.embedded) == ({"Global": 10}, {"note": 10}, 10)
    assert (status.model, status.rung, status.notice) == ("hashing-256", "full text + hashing-256", "")
    mode = app.loaded.settings.store.mode
    assert status.store["kind"] == ("sqlite" if mode == "local" else mode)


async def test_the_doctor_finds_nothing_of_what_was_never_there(app: App) -> None:
    await furnish(app)
    scrubbed = (await run(app, DOCTOR, scrub=True, phrases=["aardvark"])).scrubbed
    assert scrubbed is not None
    assert scrubbed.empty
    assert len(await found(app, QUESTION, limit=20)) > 5
