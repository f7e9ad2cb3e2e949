"""The index of past conversations when files move, when a disk is away, and while somebody waits."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from front_door import Open
from shelved_talks import SHOP, Shelf, index, known, passages, told
from talks import append, claude, user

from mindhold.app.application import App
from mindhold.history.index import refresh
from mindhold.history.index_guard import index_turn
from mindhold.ports.history import ConversationLabel

MOVED = "/home/me/code/store"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "claude")


@pytest.fixture
async def app(opened: Open, shelf: Shelf) -> AsyncIterator[App]:
    async with opened() as app:
        yield app


def is_unclean(app: App) -> bool:
    """Whether words that were removed may still be in the file."""
    with closing(sqlite3.connect(app.engine.settings.home / "data" / "history.db")) as connection:
        return bool(connection.execute("SELECT unclean FROM state").fetchone()[0])


async def test_a_conversation_moves_along_with_its_file(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    await index(app)
    one = known(app)["s1"]
    file.parent.rename(shelf.file("s1", MOVED).parent)
    append(shelf.file("s1", MOVED), *shelf.entries("s1", claude("And the heron at dusk."), start=1))
    answer = await index(app)
    assert (answer.files, answer.vanished) == (1, 0)
    now = known(app)["s1"]
    assert (now.row, now.file) == (one.row, shelf.file("s1", MOVED))
    assert "pelican" in told(app, "s1")
    assert "heron" in told(app, "s1")
    assert (await index(app)).files == 0


async def test_a_copy_moves_along_too(opened: Open, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    async with opened(**{"history.archive": True}) as app:
        await index(app)
        file.parent.rename(shelf.file("s1", MOVED).parent)
        await index(app)
        [copy] = app.engine.archive.all()
        assert copy.about is not None
        assert copy.about.file == shelf.file("s1", MOVED)
        [one] = app.engine.history.conversations()
        assert (one.file, one.gone) == (shelf.file("s1", MOVED), False)
        await index(app)
        assert len(app.engine.history.conversations()) == 1


async def test_another_file_of_that_name_is_another_conversation(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    await index(app)
    row = known(app)["s1"].row
    file.unlink()
    shelf.talk("s1", user("The heron lands at dusk."), cwd=MOVED)
    assert (await index(app)).vanished == 1
    assert known(app)["s1"].row != row
    assert "pelican" not in told(app, "s1")


async def test_an_empty_folder_may_be_that_of_a_disk_that_is_away(app: App, shelf: Shelf) -> None:
    shelf.talk("s1", user("The pelican lands at noon."))
    shelf.talk("s2", user("The heron lands at dusk."))
    await index(app)
    projects = shelf.folder / "projects"
    projects.rename(shelf.folder / "away")
    projects.mkdir()
    assert (await index(app)).vanished == 0
    assert known(app).keys() == {"s1", "s2"}
    shelf.talk("s3", user("A new beginning."))
    await index(app)
    assert known(app).keys() == {"s3"}


async def test_a_link_that_leads_nowhere_loses_nothing(app: App, shelf: Shelf, tmp_path: Path) -> None:
    folder = shelf.talk("s1", user("The pelican lands at noon.")).parent
    shelf.talk("s2", user("The heron lands at dusk."), cwd=MOVED)
    folder.rename(tmp_path / "disk")
    folder.symlink_to(tmp_path / "disk", target_is_directory=True)
    await index(app)
    (tmp_path / "disk").rename(tmp_path / "away")
    assert (await index(app)).vanished == 0
    assert known(app).keys() == {"s1", "s2"}


async def test_a_file_is_known_by_a_path_through_links_too(app: App, shelf: Shelf, tmp_path: Path) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    (tmp_path / "link").symlink_to(shelf.folder, target_is_directory=True)
    named = tmp_path / "link" / file.relative_to(shelf.folder)
    assert (await index(app, files=[str(named)])).files == 1
    assert known(app)["s1"].file == file


async def test_what_vanished_is_cleaned_away_when_nobody_waits(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    shelf.talk("s2", user("The heron lands at dusk."))
    await index(app)
    file.unlink()
    assert (await index(app, most_seconds=600)).vanished == 1
    assert not app.engine.history.search(["pelican"])
    assert is_unclean(app)
    await index(app)
    assert not is_unclean(app)


async def test_who_waits_is_not_kept_waiting_for_a_long_file(app: App, shelf: Shelf) -> None:
    line = "The crate goes to the harbour, and nobody knows why. " * 20
    size = shelf.talk("s1", *(user(f"{n} {line}") for n in range(900))).stat().st_size
    answer = await index(app, most_seconds=0.000_001)
    assert 0 < answer.bytes < size / 2
    assert answer.left >= size - answer.bytes
    assert known(app)["s1"].title == ConversationLabel()
    assert (await index(app)).left == 0
    assert known(app)["s1"].title.by == "made"
    assert sum(len(one.utterances) for one in passages(app, "s1")) == 900


async def test_what_another_process_is_reading_is_left(app: App, shelf: Shelf) -> None:
    size = shelf.talk("s1", user("The pelican lands at noon."), cwd=SHOP).stat().st_size
    with index_turn(app.engine.settings.home) as mine:
        assert mine
        assert await refresh(app.engine) == size
    assert await refresh(app.engine) == 0
