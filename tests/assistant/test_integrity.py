"""Nothing that was acknowledged is lost, and nothing is left half done: power cuts, kills, many writers at once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from assistant_door import EMBEDDED, keep, retrieved
from front_door import Open, everything, run, spoil
from tool_door import use

from mindhold.app.application import App
from mindhold.lifecycle.status import DOCTOR
from mindhold.memories.embedding import EMBED_MISSING
from mindhold.memories.stats import STATS
from mindhold.model.errors import MindholdError
from mindhold.stores.mongo.server_process import read_running

WRITERS, EACH = 6, 8


async def healthy(app: App) -> bool:
    return (await run(app, DOCTOR)).healthy


async def test_a_write_that_fails_midway_leaves_nothing_of_itself(app: App) -> None:
    await keep(app, "The chimney was swept.")
    spoil(app, "Cursed")
    with pytest.raises(MindholdError):
        await use(app, "store_memory", content="Cursed be the chimney. " * 400)  # many parts, all or none
    assert [one.content for one in await everything(app)] == ["The chimney was swept."]
    assert (await run(app, STATS)).embedded == 1
    assert await healthy(app)
    await keep(app, "The chimney is dry.")
    assert len(await retrieved(app, "chimney")) == 2


async def test_a_memory_whose_vector_is_missing_is_found_by_words_and_mended(opened: Open) -> None:
    """As after a crash between the two steps that others make of it: here both are one."""
    async with opened(**{"embedding.provider": "none"}) as app:
        await keep(app, "The barometer fell to 968.")
        assert (await run(app, STATS)).embedded == 0
    async with opened() as app:
        assert await retrieved(app, "barometer") == ["The barometer fell to 968."]
        await run(app, EMBED_MISSING)
        assert (await run(app, STATS)).embedded == 1
        assert await healthy(app)


async def test_writers_at_once_lose_nothing(opened: Open) -> None:
    async with opened() as one, opened() as other:

        async def write(app: App, writer: int) -> list[str]:
            return [await keep(app, f"Writer {writer} counted {number} swans.") for number in range(EACH)]

        apps = [(one, other)[number % 2] for number in range(WRITERS)]
        written = await asyncio.gather(*(write(app, number) for number, app in enumerate(apps)))
        names = [name for names in written for name in names]
        assert len(set(names)) == WRITERS * EACH
        for app in (one, other):
            assert {memory.id for memory in await everything(app)} == set(names)
            assert (await run(app, STATS)).embedded == WRITERS * EACH
        assert await healthy(one)


async def test_reading_goes_on_while_a_backup_is_made(app: App) -> None:
    for number in range(40):
        await keep(app, f"Shelf {number} holds box {number * 11}.")
    backup = asyncio.create_task(use(app, "backup_memory"))
    late = await keep(app, "The ladder leans on the shelf.")
    assert await retrieved(app, "ladder") == ["The ladder leans on the shelf."]
    made = await backup
    assert made["memories"] in (40, 41)
    assert late in {one.id for one in await everything(app)}


@pytest.mark.needs("mongodb")
@pytest.mark.parametrize("house", [EMBEDDED], indirect=True)
async def test_a_killed_private_mongod_has_all_that_was_acknowledged(app: App, home: Path) -> None:
    names = {await keep(app, f"Buoy {number} was seen at {number + 3} fathoms.") for number in range(25)}
    found = read_running(home / "data" / "mongo")
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    assert {one.id for one in await everything(app)} == names
    assert (await retrieved(app, "buoy 7 was seen"))[0] == "Buoy 7 was seen at 10 fathoms."
    assert await healthy(app)
