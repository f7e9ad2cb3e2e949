"""The archive as it is: what it has is copied, whatever the index says, and what it hasn't is told."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from front_door import Open, run
from talks import append, user, write

from mindhold.app.application import App
from mindhold.history.archive import last_trouble
from mindhold.model.errors import InvalidInput, NotFound
from mindhold.operation_index import operation
from mindhold.ports.history import Archive

IDS = [f"0000000{number}-1111-4222-8333-444455556666" for number in range(1, 7)]


@pytest.fixture
def projects(home: Path) -> Path:
    return home.parent / "claude" / "projects"


async def ask(app: App, name: str, **fields: Any) -> Any:
    return await run(app, operation(name), **fields)


def talk(projects: Path, number: int, *, noise: int = 0, folder: str = "shop") -> Path:
    """One of a day of March; `noise` are bytes that can't be compressed."""
    said = user(
        f"Matter {number} of the harbour. {os.urandom(noise // 2).hex()}",
        timestamp=f"2026-03-0{number}T10:00:00.000Z",
    )
    session = IDS[number - 1]
    where = {"cwd": str(projects.parents[1] / folder), "sessionId": session}
    return write(projects / f"-{folder}" / f"{session}.jsonl", said | where)


def without_index(home: Path) -> None:
    for path in (home / "data").glob("history.db*"):
        path.unlink()


def with_room(app: App, room: int) -> App:
    history = replace(app.engine.settings.history, archive_max_mb=room / (1 << 20))  # type: ignore[arg-type]
    return replace(app, engine=app.engine.with_settings(history=history))


async def known(app: App) -> set[str]:
    return {one.session_id for one in (await ask(app, "history_timeline", days=3650)).sessions}


async def test_a_copy_that_was_deleted_is_made_again(opened: Open, home: Path, projects: Path) -> None:
    async with opened(**{"history.archive": True}) as app:
        first, second = talk(projects, 1), talk(projects, 2)
        old = 1_700_000_000
        os.utime(first, (old, old))
        await ask(app, "archive_history")
        shutil.rmtree(home / "archive")
        assert (await ask(app, "history_status")).vanishing_count == 1
        back = home.parent / "back.jsonl"
        await ask(app, "restore_conversation", session=IDS[1], to=back)
        assert back.read_bytes() == second.read_bytes()
        talk(projects, 3)
        await ask(app, "index_history")  # a pass notices what lost its copy, too
        assert len(app.engine.archive.all()) == 3
        assert (await ask(app, "history_status")).vanishing_count == 0


async def test_what_lost_file_and_copy_is_gone_from_the_index(
    opened: Open, home: Path, projects: Path
) -> None:
    async with opened(**{"history.archive": True}) as app:
        file, _ = talk(projects, 1), talk(projects, 2)
        await ask(app, "archive_history")
        file.unlink()
        await ask(app, "index_history")
        assert await known(app) == set(IDS[:2])
        shutil.rmtree(home / "archive")
        await ask(app, "index_history")
        assert await known(app) == {IDS[1]}


@pytest.mark.parametrize("archiving", [False, True])
async def test_an_index_that_is_lost_is_made_anew_from_copies_alone(
    opened: Open, home: Path, projects: Path, archiving: bool
) -> None:
    async with opened(**{"history.archive": archiving}) as app:
        files = [talk(projects, 1), talk(projects, 2), talk(projects, 3, folder="secret")]
        await ask(app, "archive_history")
        for file in files:
            file.unlink()
    without_index(home)
    async with opened(**{"history.archive": archiving, "history.exclude": "secret"}) as app:
        found = await ask(app, "search_history", query="matter of the harbour")
        assert {one.session_id for one in found.results} == set(IDS[:2])
        assert (await ask(app, "history_status")).excluded_copies == [IDS[2]]
    async with opened(**{"history.archive": archiving}) as app:
        await ask(app, "index_history")
        assert await known(app) == set(IDS[:3])


async def test_an_archiver_that_was_killed_leaves_no_copy_unknown(
    opened: Open, home: Path, projects: Path
) -> None:
    async with opened(**{"history.archive": False}) as app:
        files = [talk(projects, number) for number in (1, 2, 3)]
        await ask(app, "index_history")
        dying = replace(app, engine=replace(app.engine, archive=cast(Archive, _Dying(app.engine.archive))))
        with pytest.raises(KeyboardInterrupt):
            await ask(dying, "archive_history")
        assert len(app.engine.archive.all()) == 2
        await ask(app, "archive_history")
        for file in files:
            file.unlink()
    without_index(home)
    async with opened(**{"history.archive": False}) as app:
        await ask(app, "index_history")
        assert await known(app) == set(IDS[:3])


class _Dying:
    """An archive whose process ends behind the second copy."""

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self._left = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    def add(self, *given: Any, **named: Any) -> Any:
        added = self._archive.add(*given, **named)
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        return added


async def test_it_never_takes_more_than_its_room_and_a_part(opened: Open, projects: Path) -> None:
    async with opened(**{"history.archive": False}) as app:
        for number in range(1, 7):
            talk(projects, number, noise=200_000)
        watched = _Watched(app.engine.archive)
        tight = with_room(replace(app, engine=replace(app.engine, archive=cast(Archive, watched))), 250_000)
        report = await ask(tight, "archive_history")
        assert watched.most < 250_000 + 120_000  # what a part of one of them takes
        assert {one.session_id for one in report.evicted} == set(IDS[:4])
        resumed = projects / "-shop" / f"{IDS[0]}.jsonl"
        append(resumed, user("Once more.", timestamp="2026-03-09T10:00:00.000Z") | {"sessionId": IDS[0]})
        report = await ask(tight, "archive_history")
        assert {one.session_id for one in report.evicted} == {IDS[4]}
        assert report.on_disk <= 250_000


class _Watched:
    """An archive that remembers the most that it took."""

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    def add(self, *given: Any, fits: Any, **named: Any) -> Any:
        def seen(added: int) -> bool:
            self.most = max(self.most, sum(self._archive.sizes().values()))
            return bool(fits(added))

        return self._archive.add(*given, fits=seen, **named)


async def test_what_copying_met_is_told_later(opened: Open, home: Path, projects: Path) -> None:
    async with opened(**{"history.archive": True}) as app:
        (home / "archive").write_text("no folder", encoding="utf-8")
        talk(projects, 1)
        done = await ask(app, "index_history")
        assert "could not be copied" in done.archive
        status = await ask(app, "history_status")
        assert len(status.archive_problems) == 1
        doctor = (await ask(app, "doctor")).findings
        assert [one.healthy for one in doctor if one.name == "archive"] == [False]
        (home / "archive").unlink()
        await ask(app, "archive_history")
        assert (await ask(app, "history_status")).archive_problems == []
        tight = with_room(app, 1)
        await ask(tight, "archive_history")
        status = await ask(app, "history_status")
        assert (status.made_room, status.made_room_count) == ([IDS[0]], 1)
        trouble = await last_trouble(app.engine)
        assert trouble is not None
        assert "harbour" not in repr(trouble)


async def test_a_chat_that_is_written_anew_has_one_whole_copy(opened: Open, home: Path) -> None:
    chats = home.parent / "gemini" / "tmp" / "shop" / "chats"
    chats.mkdir(parents=True)
    file = chats / "session-2026-03-02T10-00-deadbeef.json"
    async with opened(**{"history.gemini_dir": str(home.parent / "gemini")}) as app:
        for count in range(1, 4):
            said = [
                {
                    "id": str(n),
                    "type": "user",
                    "content": f"Question {n}.",
                    "timestamp": "2026-03-02T10:00:00Z",
                }
                for n in range(count)
            ]
            chat = {"sessionId": "deadbeef-1", "startTime": "2026-03-02T10:00:00Z", "messages": said}
            file.write_text(json.dumps(chat, indent=2), encoding="utf-8")
            await ask(app, "archive_history")
        whole = file.read_bytes()
        file.unlink()
        await ask(app, "index_history")
        assert len(app.engine.archive.sizes()) == 1
        back = home.parent / "back.json"
        await ask(app, "restore_conversation", session="deadbeef", to=back)
        assert back.read_bytes() == whole


async def test_a_newer_file_is_restored_before_an_older_copy(
    opened: Open, home: Path, projects: Path
) -> None:
    async with opened(**{"history.archive": False}) as app:
        file = talk(projects, 1)
        await ask(app, "archive_history")
        append(file, user("One thing more.") | {"sessionId": IDS[0]})
        back = home.parent / "back.jsonl"
        await ask(app, "restore_conversation", session=IDS[0], to=back)
        assert back.read_bytes() == file.read_bytes()
        file.unlink()
        shutil.rmtree(home / "archive")
        with pytest.raises(NotFound):
            await ask(app, "restore_conversation", session=IDS[0], to=home.parent / "other.jsonl")


async def test_nothing_is_copied_where_history_is_switched_off(opened: Open, projects: Path) -> None:
    talk(projects, 1)
    async with opened(**{"history.enabled": False}) as app:
        with pytest.raises(InvalidInput, match="switched off"):
            await ask(app, "archive_history")
