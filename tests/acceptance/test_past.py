"""Past conversations of a project: found, previewed, captured once, and dated by when they were said."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from front_door import Open, at, everything, run
from talks import Line, append, claude, user, write

from mindhold.app.application import App
from mindhold.capture.capture import CAPTURE
from mindhold.capture.past import CAPTURE_PAST, PREVIEW_PAST, CapturePastInput
from mindhold.history.forget import FORGET_CONVERSATION
from mindhold.memories.context import CONTEXT
from mindhold.model.errors import NotFound, Refused
from mindhold.model.memory import Kind
from mindhold.projects.projects import OPEN_FOLDER

MYSQL = "We decided to use MySQL 8 for the order database."
POSTGRES = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."
TABS_AGAIN = "Always use tabs for indentation of source files, never spaces."
OPEN_END = "The migration of the remaining tables to `orders_v2` still needs to be done."
FEBRUARY, MARCH, NOVEMBER = "2026-02-03", "2026-03-04", "2026-11-12"
NOW = datetime(2026, 11, 13, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


def held(
    app: App,
    folder: Path,
    name: str,
    day: str,
    *texts: str,
    answer: str = "Understood.",
    cwd: Path | None = None,
) -> Path:
    """A conversation that was held in the folder on that day."""
    where = str(cwd or folder)
    lines: list[Line] = []
    for number, text in enumerate(texts):
        more = {"cwd": where, "sessionId": name, "timestamp": f"{day}T10:{number:02}:00.000Z"}
        lines += [user(text, **more), claude(answer, **more)]
    encoded = re.sub(r"[^A-Za-z0-9]", "-", where)
    return write(app.loaded.settings.claude_dir / "projects" / encoded / f"{name}.jsonl", *lines)


async def test_they_are_previewed_and_nothing_is_stored(app: App, folder: Path) -> None:
    held(app, folder, "one", FEBRUARY, MYSQL)
    held(app, folder, "two", NOVEMBER, TABS)
    held(app, folder.parent, "elsewhere", MARCH, POSTGRES)
    preview = await run(app, PREVIEW_PAST, folder=str(folder))
    assert (preview.found, preview.conversations, preview.calls) == (2, 2, 0)
    assert preview.first is not None
    assert preview.last is not None
    assert (f"{preview.first:%F}", f"{preview.last:%F}") == (FEBRUARY, NOVEMBER)
    assert [(one.kind, one.content) for one in preview.sample] == [("preference", TABS)]
    assert preview.bytes > 0
    assert await everything(app) == []
    assert (await run(app, PREVIEW_PAST, folder=str(folder), limit=1)).conversations == 1


async def test_each_is_read_once_in_the_order_in_which_it_was_said(app: App, folder: Path) -> None:
    held(app, folder, "later", NOVEMBER, POSTGRES, TABS_AGAIN)  # written first
    held(app, folder, "earlier", FEBRUARY, TABS)
    done = await run(app, CAPTURE_PAST, folder=str(folder))
    assert (done.scope, done.conversations, done.superseded) == ("shop", 2, 1)
    assert (done.memories, done.kinds) == (2, {"decision": 1, "preference": 1})
    assert {one.content: f"{one.occurred:%F}" for one in await everything(app)} == {
        POSTGRES: NOVEMBER,
        TABS_AGAIN: NOVEMBER,
    }
    again = await run(app, CAPTURE_PAST, folder=str(folder))
    assert (again.conversations, again.memories) == (0, 0)
    assert (await run(app, PREVIEW_PAST, folder=str(folder))).conversations == 0


async def test_hooks_and_this_share_the_place_up_to_which_a_conversation_is_read(
    app: App, folder: Path
) -> None:
    file = held(app, folder, "one", NOVEMBER, TABS)
    await run(app, CAPTURE, file=str(file), folder=str(folder), event="Stop", conversation="one")
    await run(app, CAPTURE, file=str(file), folder=str(folder), event="SessionEnd", conversation="one")
    assert (await run(app, PREVIEW_PAST, folder=str(folder))).conversations == 0
    append(file, user(POSTGRES, cwd=str(folder), sessionId="one"))
    assert (await run(app, CAPTURE_PAST, folder=str(folder))).kinds == {"decision": 1}
    assert {one.content for one in await everything(app)} == {TABS, POSTGRES}


async def test_a_run_that_is_broken_off_goes_on_where_it_was(app: App, folder: Path) -> None:
    for number in range(1, 6):
        held(
            app,
            folder,
            f"talk{number}",
            f"2026-03-0{number}",
            f"Always name branch number {number} team-{number}.",
        )

    def interrupt(_step: str, done: int, _total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await app.run(CAPTURE_PAST, CapturePastInput(folder=str(folder)), progress=interrupt)
    assert (await run(app, PREVIEW_PAST, folder=str(folder))).conversations == 3
    assert (await run(app, CAPTURE_PAST, folder=str(folder))).conversations == 3
    conversations = [one.provenance["conversation"] for one in await everything(app)]
    assert sorted(conversations) == [f"talk{number}" for number in range(1, 6)]


async def test_what_was_open_in_february_is_not_open_now(app: App, folder: Path) -> None:
    held(app, folder, "old", FEBRUARY, "Add the tables to `orders_v2`.", answer=OPEN_END)
    held(app, folder, "new", NOVEMBER, TABS)
    await run(app, CAPTURE_PAST, folder=str(folder))
    assert {one.content for one in await everything(app)} == {TABS}


async def test_what_the_newest_left_open_is_open(app: App, folder: Path) -> None:
    held(app, folder, "old", FEBRUARY, TABS)
    held(app, folder, "new", NOVEMBER, "Add the tables to `orders_v2`.", answer=OPEN_END)
    await run(app, CAPTURE_PAST, folder=str(folder))
    kept = {one.content: one for one in await everything(app)}
    assert kept[OPEN_END].kind == Kind.PROGRESS
    assert f"{kept[OPEN_END].occurred:%F}" == NOVEMBER


async def test_progress_is_as_old_as_it_was_when_it_was_said(app: App, folder: Path) -> None:
    held(app, folder, "only", NOVEMBER, "Add the tables to `orders_v2`.", answer=OPEN_END)
    await run(at(app, NOW), CAPTURE_PAST, folder=str(folder))
    [fresh] = await everything(at(app, NOW))
    assert fresh.confidence > 0.5
    [faded] = await everything(at(app, datetime(2026, 11, 12, 10, tzinfo=UTC) + timedelta(days=8)))
    assert faded.confidence == 0.0, "the seven days of progress begin when it is said"


async def test_folders_in_the_project_count_and_others_do_not(app: App, folder: Path) -> None:
    (folder / "api").mkdir()
    twin = folder.parent / "shop-web"
    twin.mkdir()
    await run(app, OPEN_FOLDER, folder=str(folder))
    held(app, folder, "inside", MARCH, TABS, cwd=folder / "api")
    held(app, folder, "gone", MARCH, POSTGRES, cwd=folder / "removed-since")
    held(app, folder, "beside", MARCH, MYSQL, cwd=twin)
    assert (await run(app, PREVIEW_PAST, folder=str(folder))).conversations == 2


async def test_what_is_excluded_forgotten_or_switched_off_is_not_read(
    app: App, folder: Path, opened: Open
) -> None:
    held(app, folder, "one", FEBRUARY, MYSQL)
    held(app, folder, "two", MARCH, TABS)
    await run(app, FORGET_CONVERSATION, session="one")
    assert (await run(app, CAPTURE_PAST, folder=str(folder))).conversations == 1
    assert [one.content for one in await everything(app)] == [TABS]
    held(app, folder, "three", NOVEMBER, POSTGRES)
    for setting in ("history.exclude", "capture.exclude"):
        async with opened(**{setting: "shop"}) as other:
            assert (await run(other, PREVIEW_PAST, folder=str(folder))).found == 0
    for setting in ("history.enabled", "capture.enabled"):
        async with opened(**{setting: False}) as other:
            with pytest.raises(Refused, match=setting):
                await run(other, CAPTURE_PAST, folder=str(folder))
    with pytest.raises(NotFound):
        await run(app, CAPTURE_PAST, folder=str(folder / "nowhere"))


async def test_old_progress_is_not_what_a_conversation_begins_with(app: App, folder: Path) -> None:
    held(
        app,
        folder,
        "old",
        FEBRUARY,
        "Add the tables.",
        answer="Added the `--json` flag to the export command.",
    )
    held(app, folder, "new", NOVEMBER, TABS)
    await run(app, CAPTURE_PAST, folder=str(folder))
    begun = await run(at(app, NOW), CONTEXT, scope="shop")
    assert TABS in begun.text
    assert "--json" not in begun.text
