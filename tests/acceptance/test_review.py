"""The review of captured memories: verdicts, what they teach capture, and how they are taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from front_door import everything, remember, run, show
from talks import Line, claude, user, write

from mindhold.app.application import App
from mindhold.capture.capture import CAPTURE, CaptureResult
from mindhold.capture.rejections import LIFT_REJECTIONS, LIST_REJECTIONS
from mindhold.capture.review import LIST_CAPTURES, REVIEW, ReviewResult
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET, UNFORGET
from mindhold.model.errors import InvalidInput, MemoryNotFound, Refused

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."
COMPOSE = "We decided to deploy the shop with Docker Compose instead of Kubernetes."
TABS_TOO = "Always use tabs for indentation of Python files, never spaces."
NO_TABS = "Never use tabs for indentation of Python files."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


async def captured(
    app: App, folder: Path, *texts: str, name: str = "one", day: int = 2, months: int = 3
) -> CaptureResult:
    """Capture a conversation in which a person says these texts."""
    at = f"2026-{months:02}-{day:02}T10:00:00.000Z"
    lines: list[Line] = []
    for text in texts:
        lines += [user(text, timestamp=at, sessionId=name), claude("Understood.", timestamp=at)]
    file = write(folder.parent / f"{name}.jsonl", *lines)
    return await run(app, CAPTURE, file=str(file), folder=str(folder), event="SessionEnd")


async def waiting(app: App) -> dict[str, str]:
    """What waits for review: ids by content, newest capture first."""
    result = await run(app, LIST_CAPTURES, scope="shop")
    assert result.waiting == len(result.captures)
    return {memory.content: memory.id for memory in result.captures}


async def verdict(app: App, **fields: object) -> ReviewResult:
    return await run(app, REVIEW, scope="shop", **fields)


async def contents(app: App) -> set[str]:
    return {memory.content for memory in await everything(app, scope="shop")}


async def test_the_newest_captures_come_first_and_what_the_user_stored_not_at_all(
    app: App, folder: Path
) -> None:
    await captured(app, folder, DECIDED)
    await captured(app, folder, COMPOSE, name="two", day=1)
    await remember(app, "The quay crane lifts 40 tonnes", scope="shop")
    assert list(await waiting(app)) == [COMPOSE, DECIDED]
    result = await run(app, LIST_CAPTURES, scope="shop", limit=1)
    assert ([memory.content for memory in result.captures], result.waiting) == ([COMPOSE], 2)


async def test_what_was_kept_or_edited_does_not_come_again(app: App, folder: Path) -> None:
    await captured(app, folder, DECIDED, TABS)
    ids = await waiting(app)
    before = (await show(app, ids[DECIDED])).memory
    done = await verdict(app, keep=[ids[DECIDED]], edit=[{"id": ids[TABS], "content": "Tabs, not spaces."}])
    assert (done.kept, done.edited, done.captures, done.waiting) == ([ids[DECIDED]], [ids[TABS]], [], 0)
    assert await contents(app) == {DECIDED, "Tabs, not spaces."}
    after = (await show(app, ids[DECIDED])).memory
    assert (after.updated, after.occurred) == (before.updated, before.occurred), (
        "keeping makes nothing younger"
    )
    assert [one.content for one in (await show(app, ids[TABS])).versions] == [TABS]
    await captured(app, folder, DECIDED, TABS)
    assert await waiting(app) == {}
    await verdict(app, undo=[ids[DECIDED]])
    assert set(await waiting(app)) == {DECIDED}


async def test_what_was_dropped_is_forgotten_and_can_be_brought_back(app: App, folder: Path) -> None:
    await captured(app, folder, DECIDED, TABS)
    ids = await waiting(app)
    done = await verdict(app, drop=[ids[DECIDED]])
    assert (done.dropped, set(await waiting(app)), await contents(app)) == ([ids[DECIDED]], {TABS}, {TABS})
    done = await verdict(app, undo=[ids[DECIDED]])
    assert done.restored == [ids[DECIDED]]
    assert set(await waiting(app)) == {DECIDED, TABS}
    assert (await run(app, LIST_REJECTIONS)).rejections == []


async def test_never_again_keeps_its_like_from_being_captured(app: App, folder: Path) -> None:
    await captured(app, folder, TABS)
    ids = await waiting(app)
    done = await verdict(app, never=list(ids.values()))
    assert done.rejected == list(ids.values())
    later = await captured(app, folder, TABS_TOO, DECIDED, name="two", months=4)
    assert (later.rejected, len(later.stored)) == (1, 1)
    assert await contents(app) == {DECIDED}, "only its like is left out"
    again = await captured(app, folder, TABS, name="three", months=5)
    assert (again.rejected, again.stored) == (1, [])


async def test_the_contrary_is_no_repetition(app: App, folder: Path) -> None:
    await captured(app, folder, "Always use tabs for indentation of Python files.")
    await verdict(app, never=list((await waiting(app)).values()))
    later = await captured(app, folder, NO_TABS, name="two", months=4)
    assert (later.rejected, await contents(app)) == (0, {NO_TABS})


async def test_dropping_alike_ones_repeatedly_teaches_too(app: App, folder: Path) -> None:
    await captured(app, folder, TABS)
    await verdict(app, drop=list((await waiting(app)).values()))
    second = await captured(app, folder, TABS_TOO, name="two", months=4)
    assert second.rejected == 0, "one drop is about one line"
    await verdict(app, drop=list((await waiting(app)).values()))
    third = await captured(
        app, folder, "Always use tabs for indentation of Go files, never spaces.", name="three", months=5
    )
    assert (third.rejected, third.stored) == (1, [])


async def test_another_project_is_another_place(app: App, folder: Path) -> None:
    await captured(app, folder, TABS)
    await verdict(app, never=list((await waiting(app)).values()))
    other = folder.parent / "warehouse"
    other.mkdir()
    assert (await captured(app, other, TABS, name="two", months=4)).rejected == 0


async def test_rejections_are_listed_and_lifted(app: App, folder: Path) -> None:
    await captured(app, folder, TABS, DECIDED)
    ids = await waiting(app)
    await verdict(app, never=[ids[TABS]], drop=[ids[DECIDED]])
    listed = {one.memory.content: one.never for one in (await run(app, LIST_REJECTIONS)).rejections}
    assert listed == {TABS: True, DECIDED: False}
    assert (await run(app, LIFT_REJECTIONS, ids=[ids[TABS]])).lifted == [ids[TABS]]
    assert len((await captured(app, folder, TABS_TOO, name="two", months=4)).stored) == 1
    assert TABS not in await contents(app), "the memory itself stays forgotten"


async def test_a_rejection_ends_with_its_memory(app: App, folder: Path) -> None:
    await captured(app, folder, TABS, DECIDED)
    ids = await waiting(app)
    await verdict(app, never=[ids[TABS], ids[DECIDED]])
    await run(app, UNFORGET, ids=[ids[TABS]])
    await run(app, FORGET, ids=[ids[DECIDED]], hard=True)
    assert (await run(app, LIST_REJECTIONS)).rejections == []


async def test_what_cannot_be_reviewed_is_told_and_nothing_is_done(app: App, folder: Path) -> None:
    await captured(app, folder, TABS, DECIDED)
    ids = await waiting(app)
    mine = await remember(app, "The quay crane lifts 40 tonnes", scope="shop")
    assert mine.id is not None
    with pytest.raises(InvalidInput, match="not captured"):
        await verdict(app, drop=[ids[TABS], mine.id])
    with pytest.raises(InvalidInput, match="named twice"):
        await verdict(app, keep=[ids[TABS]], drop=[ids[TABS]])
    with pytest.raises(MemoryNotFound):
        await verdict(app, drop=["zz"])
    await run(app, AMEND, id=ids[TABS], anchor=True)
    with pytest.raises(Refused, match="anchor"):
        await verdict(app, never=[ids[TABS]])
    assert set(await waiting(app)) == {TABS, DECIDED}
