"""A conversation that has ended is judged as a whole: what its end undid is no longer told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from front_door import everything, run
from talks import Line, append, claude, ran, user, write

from mindhold.app.application import App
from mindhold.capture.capture import CAPTURE, CaptureResult
from mindhold.capture.review import REVIEW

KEPT_IN = "We decided to keep the parser in old_parser.py instead of a package."
TABS = "Always use tabs for indentation in old_parser.py, never spaces."
POSTGRES = "We decided to use PostgreSQL 16 for the order database instead of MySQL."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "projects" / "-code-shop" / "s.jsonl"


async def capture(app: App, file: Path, folder: Path, event: str, **more: Any) -> CaptureResult:
    return await run(app, CAPTURE, file=str(file), folder=str(folder), event=event, **more)


async def contents(app: App) -> set[str]:
    return {memory.content for memory in await everything(app)}


async def begin(app: App, file: Path, folder: Path) -> None:
    write(
        file,
        user(KEPT_IN),
        claude("Understood."),
        user(TABS),
        claude("Noted."),
        user(POSTGRES),
        claude("Fine."),
    )
    await capture(app, file, folder, "Stop")
    assert await contents(app) == {KEPT_IN, TABS, POSTGRES}
    append(
        file, *wrote("old_parser.py"), user("Remove it after all"), *ran("rm old_parser.py", "", call="c2")
    )
    append(file, claude("Removed."))


def wrote(path: str) -> list[Line]:
    """A file that was written; when it is removed again, what was said of it is no longer so."""
    use = {"type": "tool_use", "id": "c1", "name": "Write", "input": {"file_path": path, "content": "x"}}
    [called, answered] = ran("", "File created", call="c1")
    called["message"]["content"] = [use]
    return [called, answered]


async def test_what_the_end_undid_is_archived_and_what_the_person_wishes_stays(
    app: App, file: Path, folder: Path
) -> None:
    await begin(app, file, folder)
    assert (await capture(app, file, folder, "Stop")).withdrawn == []  # it may go on
    append(file, user("Thanks, that is all"))
    done = await capture(app, file, folder, "SessionEnd")
    assert len(done.withdrawn) == 1
    assert await contents(app) == {TABS, POSTGRES}
    assert (await capture(app, file, folder, "SessionEnd")).withdrawn == []


async def test_what_a_person_kept_in_a_review_is_not_archived(app: App, file: Path, folder: Path) -> None:
    await begin(app, file, folder)
    [kept] = [memory.id for memory in await everything(app) if memory.content == KEPT_IN]
    await run(app, REVIEW, keep=[kept])
    append(file, user("Thanks, that is all"))
    assert (await capture(app, file, folder, "SessionEnd")).withdrawn == []
    assert KEPT_IN in await contents(app)
