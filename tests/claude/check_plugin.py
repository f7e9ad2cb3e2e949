"""The plugin and its marketplace, by the real Claude Code: valid, installed, at work. Run by `make test-claude`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from claude_code import NEWEST, claude, program, surrounded
from scripted import Say, Use

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0
TOOL = "mcp__plugin_mindhold_mindhold__"
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def ask(user: Path, *argv: str, folder: Path = ROOT, client: str = NEWEST) -> str:
    done = subprocess.run(
        [*program(client), *argv],
        cwd=folder,
        env=surrounded(user, PATH=PATH),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("what", [".", "plugin"])
def test_it_is_valid_strictly(tmp_path: Path, what: str) -> None:
    told = json.loads(ask(tmp_path, "plugin", "validate", str(ROOT / what), "--strict", "--json"))
    assert not _found(told, "errors")
    assert not _found(told, "warnings")


def test_installed_from_the_marketplace_it_captures_and_recalls(tmp_path: Path) -> None:
    user, folder = tmp_path / "user", tmp_path / "shop"
    user.mkdir()
    folder.mkdir()
    ask(user, "plugin", "marketplace", "add", str(ROOT))
    ask(user, "plugin", "install", "mindhold@mindhold", folder=folder)
    surroundings: dict[str, Any] = {"folder": folder, "user": user, "PATH": PATH}
    fact = {"content": "The quay crane lifts 40 tonnes.", "topic": "crane", "type": "fact"}
    argv = ["-p", "/mindhold:remember the crane lifts 40 tonnes", "--allowedTools", f"{TOOL}remember"]
    ran = claude(argv, [Use(f"{TOOL}remember", fact), Say("Kept.")], **surroundings)
    assert ran.said == "Kept."
    asked = json.dumps(ran.requests, ensure_ascii=False)
    assert "Remember this with the `remember` tool of Mindhold" in asked
    assert '\\"success\\":true' in asked.replace(" ", "")
    settle(user)
    told = claude(["-p", "What can the quay crane lift?"], [Say("40 tonnes.")], **surroundings)
    assert fact["content"] in json.dumps(told.requests[0]), "the hook brings it back"


def settle(user: Path) -> None:
    """Until nothing waits and nobody works for this person."""
    end = time.monotonic() + PATIENCE
    while list((user / ".mindhold/hooks/waiting").glob("*.json")) or any(
        map(_works_for(user), psutil.pids())
    ):
        assert time.monotonic() < end, "still at work"
        time.sleep(0.1)


def _works_for(user: Path) -> Callable[[int], bool]:
    def works(number: int) -> bool:
        try:
            process = psutil.Process(number)
            ours = "hook-worker" in process.cmdline()
            return ours and process.environ().get("HOME") == str(user)
        except psutil.Error:
            return False

    return works


def _found(told: object, name: str) -> list[object]:
    """All that stands under that name, wherever."""
    if isinstance(told, dict):
        own = [one for one in [told.get(name)] if one]
        return own + [found for value in told.values() for found in _found(value, name)]
    if isinstance(told, list):
        return [found for value in told for found in _found(value, name)]
    return []
