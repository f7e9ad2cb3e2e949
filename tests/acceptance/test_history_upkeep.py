"""What a doctor says of past conversations, and that they are archived by the clock, with consent only."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from front_door import Open, at, run
from talks import claude, user, write

from mindhold.app.application import App
from mindhold.history.index import INDEX_HISTORY
from mindhold.history.passages import own_job
from mindhold.jobs.handlers import ARCHIVE_HISTORY
from mindhold.jobs.queue import RUN_JOBS
from mindhold.jobs.runner import schedule_of
from mindhold.lifecycle.status import DOCTOR
from mindhold.memories.views import FindingView

HISTORY, VANISHING, RLM = "history", "vanishing conversations", "rlm"


def talk(app: App, name: str, *, days: float = 0.0) -> Path:
    """One that was last written to so many days ago."""
    file = app.loaded.settings.claude_dir / "projects" / "-code" / f"{name}.jsonl"
    write(file, user("Where is the sluice?", sessionId=name), claude("Below the mill.", sessionId=name))
    then = (app.engine.clock() - timedelta(days=days)).timestamp()
    os.utime(file, (then, then))
    return file


async def findings(app: App) -> dict[str, FindingView]:
    return {one.name: one for one in (await run(app, DOCTOR)).findings}


async def test_what_is_not_indexed_yet_is_told(app: App) -> None:
    talk(app, "one")
    before = (await findings(app))[HISTORY]
    assert before.healthy
    assert "1 files" in before.detail
    assert "history index" in before.advice
    await run(app, INDEX_HISTORY)
    after = (await findings(app))[HISTORY]
    assert (after.healthy, after.advice) == (True, "")
    assert after.detail.startswith("1 conversations indexed")


async def test_what_will_vanish_is_wrong_only_where_it_was_to_be_kept(opened: Open) -> None:
    async with opened() as app:
        talk(app, "old", days=27)
        talk(app, "new")
        await run(app, INDEX_HISTORY)
        told = (await findings(app))[VANISHING]
        assert told.healthy
        assert told.detail.startswith("1 will be deleted")
        assert "history archive" in told.advice
    async with opened(**{"history.archive": True}) as app:
        assert not (await findings(app))[VANISHING].healthy
        await run(app, RUN_JOBS)
        assert VANISHING not in await findings(app)
        assert len(app.engine.archive.all()) == 2


async def test_the_clock_archives_with_consent_only(opened: Open) -> None:
    async with opened() as app:
        name = own_job(app.engine, ARCHIVE_HISTORY)
        assert name not in {entry.name for entry in schedule_of(app.engine)}
    async with opened(**{"history.archive": True, "history.archive_hours": 3}) as app:
        [entry] = [entry for entry in schedule_of(app.engine) if entry.name == name]
        assert entry.every == timedelta(hours=3)
        await run(app, RUN_JOBS)
        talk(app, "later")
        later = at(app, app.engine.clock() + entry.every)
        assert name in [job.name for job in (await run(later, RUN_JOBS)).ran]
        assert len(app.engine.archive.all()) == 1


async def test_a_server_that_cannot_be_started_is_told(opened: Open, tmp_path: Path) -> None:
    async with opened(**{"rlm.command": str(tmp_path / "no-such-program")}) as app:
        told = (await findings(app))[RLM]
        assert not told.healthy
        assert "rlm.command" in told.advice
    async with opened() as app:
        assert RLM not in await findings(app)


async def test_where_history_is_off_nothing_is_said(opened: Open) -> None:
    async with opened(**{"history.enabled": False}) as app:
        talk(app, "one")
        assert not {HISTORY, VANISHING} & set(await findings(app))
