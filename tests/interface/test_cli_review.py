"""`mindhold review`, by keyboard on a real terminal and by arguments, and what a hook says of the last conversation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_shell import Shell
from terminal import Terminal

from mindhold.app.application import open_app
from mindhold.capture.capture import CAPTURE
from mindhold.capture.hook_cache import MAKE_HOOK_CACHE
from mindhold.hooks.lease import Lease
from mindhold.settings.loader import load_settings

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."
TABS_TOO = "Always use tabs for indentation of Python files, never spaces."
COMPOSE = "We decided to deploy the shop with Docker Compose instead of Kubernetes."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, in which the shell works."""
    made = tmp_path / "shop"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def talk(folder: Path, name: str, *texts: str, month: int = 3) -> Path:
    file = folder.parent / f"{name}.jsonl"
    entries = [
        {
            "type": "user",
            "uuid": f"{name}{number}",
            "sessionId": name,
            "cwd": str(folder),
            "timestamp": f"2026-{month:02}-01T10:0{number}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def contents(shell: Shell) -> set[str]:
    return {memory["content"] for memory in shell.fine("list", "--scope", "shop", "--json").json["memories"]}


def test_it_walks_through_them_by_keys(shell: Shell, folder: Path) -> None:
    shell.fine("capture", str(talk(folder, "one", DECIDED, TABS, COMPOSE)))
    with Terminal("review", folder=folder, environment=os.environ) as terminal:
        terminal.answer("1 of 3", "")
        terminal.answer("[q]uit", "d")
        terminal.answer("2 of 3", "")
        terminal.answer("[q]uit", "u")
        terminal.answer("1 of 3", "")
        terminal.answer("[q]uit", "xk")  # a key that means nothing is passed over
        terminal.answer("2 of 3", "")
        terminal.answer("[q]uit", "e")
        terminal.answer("New text", "\x15Indent with tabs.\r")
        terminal.answer("3 of 3", "")
        terminal.answer("[q]uit", "n")
        assert terminal.end() == 0, terminal.said
    assert "1 kept, 1 never again, 1 changed; 0 left to review." in terminal.said
    assert contents(shell) == {COMPOSE, "Indent with tabs."}
    assert shell.fine("review").out == "Nothing waits for review.\n"


def test_quitting_leaves_the_rest_for_the_next_time(shell: Shell, folder: Path) -> None:
    shell.fine("capture", str(talk(folder, "one", DECIDED, TABS)))
    with Terminal("review", folder=folder, environment=os.environ) as terminal:
        terminal.answer("[q]uit", "s")
        terminal.answer("2 of 2", "")
        terminal.answer("[q]uit", "q")
        assert terminal.end() == 0
    assert "Nothing decided; 2 left to review." in terminal.said
    with Terminal("review", folder=folder, environment=os.environ) as terminal:
        terminal.answer("[q]uit", "")
        terminal.interrupt()
        assert terminal.end() == 130


def test_programs_give_verdicts_by_arguments(shell: Shell, folder: Path) -> None:
    told = shell.fine("capture", str(talk(folder, "one", DECIDED, TABS, COMPOSE)))
    assert "`mindhold review` walks through what was kept." in told.err
    listed = shell.fine("review", "--json").json
    ids = {memory["content"]: memory["id"] for memory in listed["captures"]}
    assert (set(ids), listed["waiting"]) == ({DECIDED, TABS, COMPOSE}, 3)
    assert all(text in shell.fine("review").out for text in ids)
    done = shell.fine(
        *(
            "review",
            "--keep",
            ids[DECIDED],
            "--never",
            ids[TABS],
            "--edit",
            ids[COMPOSE],
            "We deploy by Compose.",
        )
    )
    assert done.out == "1 kept, 1 changed, 1 never again; 0 left to review.\n"
    assert contents(shell) == {DECIDED, "We deploy by Compose."}
    later = shell.fine("capture", str(talk(folder, "two", TABS_TOO, month=4))).out
    assert later == "two.jsonl: 0 memories for shop, of 1 line, 1 like what you rejected, by rules\n"
    assert TABS in shell.fine("review", "--rejected").out
    assert shell.fine("review", "--lift", ids[TABS]).out == "Lifted 1 rejection.\n"
    assert shell.fine("review", "--rejected", "--json").json == {"rejections": []}
    assert shell.fine("review", "--undo", ids[TABS], "--json").json["restored"] == [ids[TABS]]
    assert shell("review", "--drop", "zz").status == 3


@pytest.fixture
def alone(shell: Shell) -> object:
    """Holds the lease, so that no worker starts."""
    with Lease(str(shell.home)) as mine:
        assert mine
        yield


def begun(shell: Shell, folder: Path, session: str, source: str = "startup") -> str:
    """What the person is shown when a conversation begins."""
    given = {"hook_event_name": "SessionStart", "session_id": session, "cwd": str(folder), "source": source}
    command = [sys.executable, "-m", "mindhold", "hook", "SessionStart"]
    environment = {**os.environ, "MINDHOLD_HOME": str(shell.home)}
    done = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, check=True
    )
    message: str = json.loads(done.stdout or "{}").get("systemMessage", "")
    return message


@pytest.mark.usefixtures("alone")
async def test_a_person_is_told_once_what_was_kept_of_the_last_conversation(
    shell: Shell, folder: Path
) -> None:
    file = talk(folder, "one", DECIDED, TABS, TABS.replace("tabs", "spaces"))
    async with open_app(load_settings({"home": str(shell.home)})) as app:
        call = CAPTURE.takes(file=str(file), folder=str(folder), event="SessionEnd")
        result = await app.run(CAPTURE, call)
        assert result.stored
        await app.run(MAKE_HOOK_CACHE, MAKE_HOOK_CACHE.takes(folders=[str(folder)]))
    assert begun(shell, folder, "one") == "", "the same conversation goes on"
    assert begun(shell, folder, "two", "resume") == ""
    line = "Kept from the last conversation: 1 decision, 1 wish. `mindhold review` shows them."
    assert begun(shell, folder, "two") == line
    assert begun(shell, folder, "three") == ""
