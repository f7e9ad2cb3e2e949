"""`mindhold maintain`, as cron calls it, and the night's runs of real servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from mcp_clients import WAIT, HttpServer, Wire, command, surroundings

from everywhere import House
from mindhold.app.application import open_app
from mindhold.engine import Engine
from mindhold.lifecycle import maintenance
from mindhold.lifecycle.maintenance import SCHEDULE, STEPS
from mindhold.lifecycle.stage_report import StageLimits, StageResult
from mindhold.locks import claim
from mindhold.model.errors import StoreFull
from mindhold.settings.loader import load_settings

TEXT = "The heron nests at the weir"


async def full(_engine: Engine, _within: StageLimits) -> StageResult:
    raise StoreFull("There is no room.")


def test_it_does_the_upkeep_and_says_what(shell: Shell) -> None:
    shell.remember(TEXT)
    dry = shell.fine("maintain", "--dry-run")
    assert "would change" in dry.out
    assert "Nothing was changed." in dry.err
    done = shell.fine("maintain")
    for name in (*STEPS, "jobs"):
        assert f"\n{name} " in done.out
    told = shell.fine("maintain", "--step", "tidy,optimise", "--seconds", "5", "--json").json
    assert [one["step"] for one in told["steps"]] == ["tidy", "optimise"]
    assert told["failed"] == []
    assert shell.fine("maintain", "--no-backup").status == 0
    assert shell("maintain", "--step", "cooking").status == 2
    assert shell("maintain", "--seconds", "0").status == 2


def test_a_step_that_fails_is_the_exit_status(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "STEPS", {"full": f"{__name__}:full", "tidy": STEPS["tidy"]})
    answer = shell("maintain")
    assert answer.status == 1
    assert "FAILED: There is no room." in answer.out
    assert "full failed, STORE_FULL: There is no room." in answer.err
    assert "\ntidy " in answer.out
    assert shell("maintain", "--json").json["failed"] == ["full"]


def test_of_two_one_says_that_the_other_is_at_it(shell: Shell, load: Any) -> None:
    loaded = load(home=shell.home)

    async def held() -> str:
        async with open_app(loaded) as app, claim(app.engine, "maintain"):
            return await asyncio.to_thread(lambda: shell.fine("maintain").out)

    assert asyncio.run(held()) == "Another maintenance is under way.\n"


def test_as_a_process_it_steps_back_and_leaves_its_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    told = subprocess.run(
        command("maintain", "--json"),
        env=surroundings(home),
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT,
        check=True,
    )
    assert json.loads(told.stdout)["failed"] == []
    [log] = (home / "logs").glob("mindhold-*.log")
    assert "maintenance ended" in log.read_text(encoding="utf-8")


def missed_a_night(home: Path, house: House) -> None:
    """A store whose last maintenance was two days ago."""

    async def set_back() -> None:
        given = {"home": home, "time_zone": "UTC", "embedding.provider": "hashing"}
        async with open_app(load_settings(given | house.settings_of(home), environ={})) as app:
            last = app.engine.clock() - timedelta(days=2)
            await app.engine.store.set_cursor(SCHEDULE, last.isoformat())

    asyncio.run(set_back())


def jobs_of(home: Path, **settings: str) -> list[dict[str, Any]]:
    told = subprocess.run(
        command("jobs", "list", "--limit", "100", "--json"),
        env=surroundings(home, **settings),
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT,
        check=True,
    )
    return [job for job in json.loads(told.stdout)["jobs"] if job["name"] == "maintain"]


def until_done(home: Path, **settings: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        found = jobs_of(home, **settings)
        if found and all(job["state"] == "done" for job in found):
            return found
    raise AssertionError(f"not in time: {found}")


NOW = {"MINDHOLD_MAINTENANCE_IDLE_MINUTES": "0"}


def test_two_servers_on_one_store_make_up_a_missed_night_once(tmp_path: Path, house: House) -> None:
    home = tmp_path / "home"
    missed_a_night(home, house)
    with HttpServer(home, **NOW) as first, HttpServer(home, **NOW) as second:
        assert len(until_done(home)) == 1
        for server in (first, second):
            assert server.stop() == 0
    said = "".join(path.read_text(encoding="utf-8") for path in (home / "logs").glob("mindhold-*.log"))
    assert said.count("maintenance ended") == 1


def test_where_no_server_runs_an_agents_own_does_it(tmp_path: Path, house: House) -> None:
    home = tmp_path / "home"
    missed_a_night(home, house)
    with Wire(home, **NOW) as wire:
        wire.greet()
        wire.call("recall", query="heron")
        assert len(until_done(home)) == 1
        wire.close()


if sys.platform != "win32":

    def test_it_runs_behind_everything_else(tmp_path: Path) -> None:
        """Its niceness, as the process itself sees it when the store is opened."""
        home = tmp_path / "home"
        script = (
            "import os, sys; from mindhold.__main__ import main; import mindhold.interfaces.cli.main as cli;"
            "cli.run = lambda argv, launcher: print(os.nice(0)) or 0; sys.argv = ['mindhold', 'maintain']; main()"
        )
        told = subprocess.run(
            [sys.executable, "-c", script],
            env=surroundings(home),
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT,
            check=True,
        )
        assert int(told.stdout) >= 10
