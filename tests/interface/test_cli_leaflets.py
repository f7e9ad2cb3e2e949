"""What a hook tells, as commands leave it behind: real hooks in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shell import Shell

from mindhold.hooks import event_queue
from mindhold.hooks.lease import Lease

ORDERS = "We decided to keep orders in PostgreSQL."


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is worked in, of a person with settings of their own."""
    for name in ("HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "person"))
    made = tmp_path / "a shop"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture(autouse=True)
def alone(shell: Shell) -> Iterator[None]:
    """Holds the lease, so that no worker starts."""
    with Lease(str(shell.home)) as mine:
        assert mine
        yield


def begun(shell: Shell, folder: Path, agent: str = "") -> str:
    """What a conversation is told that starts now."""
    given = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(folder), "source": "startup"}
    environment = {**os.environ, "MINDHOLD_HOME": str(shell.home)} | (
        {"MINDHOLD_AGENT": agent} if agent else {}
    )
    command = [sys.executable, "-m", "mindhold", "hook", "SessionStart"]
    done = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_first_conversation_after_init_knows_what_is_known(shell: Shell, project: Path) -> None:
    shell.fine("init", "--yes")
    assert begun(shell, project) == ""
    shell.remember(ORDERS, "--kind", "decision")
    assert ORDERS in begun(shell, project)


def test_for_all_projects_too(shell: Shell, project: Path) -> None:
    shell.fine("projects", "create", "shop", "--path", str(project))
    shell.remember(ORDERS, "--kind", "decision")
    shell.fine("init", "--global", "--yes")
    assert ORDERS in begun(shell, project)


def test_nobody_is_told_what_is_somebody_elses(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.fine("init", "--yes")
    monkeypatch.setenv("MINDHOLD_AGENT", "ada")
    shell.remember(ORDERS, "--kind", "decision")
    monkeypatch.delenv("MINDHOLD_AGENT")
    assert ORDERS in begun(shell, project, agent="ada")
    assert begun(shell, project, agent="bob") == begun(shell, project) == ""


def test_a_setting_holds_at_once(shell: Shell, project: Path) -> None:
    shell.fine("init", "--yes")
    shell.remember(ORDERS, "--kind", "decision")
    shell.fine("config", "set", "recall.limit", "7")
    assert ORDERS in begun(shell, project)
    before = event_queue.count_events(str(shell.home))
    shell.fine("config", "set", "capture.start_tokens", "0")
    assert event_queue.count_events(str(shell.home)) == before + 1, "a worker is asked to make them anew"
    assert begun(shell, project) == ""


def test_the_doctor_looks_at_what_hooks_left(shell: Shell, project: Path) -> None:
    def finding() -> dict[str, object]:
        found = shell("doctor", "--json").json["findings"]
        return next((one for one in found if one["name"] == "hooks"), {})

    hooks = shell.home / "hooks"
    hooks.chmod(0o700)
    assert finding()["healthy"] is True
    waits = hooks / "waiting"
    waits.mkdir(mode=0o700)
    (waits / "01700000000000000000-1-0.json").write_text("{}", encoding="ascii")
    (hooks / "worker.log").write_text("2026-01-02T03:04:05Z SETTINGS_ERROR\n", encoding="ascii")
    told = finding()
    assert told["healthy"] is False
    assert "1 events waiting" in str(told["detail"])
    assert "SETTINGS_ERROR" in str(told["detail"])
    assert told["advice"]


def test_another_store_s_memories_are_told_to_nobody(shell: Shell, project: Path, tmp_path: Path) -> None:
    assert shell.fine("init", "--yes")
    shell.remember("Deploys happen with Kamal on Fridays", "--kind", "decision")
    before = {path.name: path.read_bytes() for path in (shell.home / "hooks" / "leaflets").glob("*.jsonl")}
    assert any(b"Kamal" in content for content in before.values())
    shell.fine("demo")
    shell.fine("-o", f"store.path={tmp_path / 'other.db'}", "remember", "The parrot sings at noon in here")
    after = {path.name: path.read_bytes() for path in (shell.home / "hooks" / "leaflets").glob("*.jsonl")}
    assert after == before
