"""`mindhold init` and `mindhold capture --past`: past conversations are offered, previewed and read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from cli_shell import Shell
from terminal import Terminal

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, in which the shell works, of a person who held two conversations in it."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "person"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "person" / ".claude"))
    made = tmp_path / "shop"
    made.mkdir()
    monkeypatch.chdir(made)
    encoded = re.sub(r"[^A-Za-z0-9]", "-", str(made))
    files = tmp_path / "person" / ".claude" / "projects" / encoded
    files.mkdir(parents=True)
    for name, day, text in (("one", "2026-02-03", DECIDED), ("two", "2026-11-12", TABS)):
        entry = {
            "type": "user",
            "sessionId": name,
            "cwd": str(made),
            "timestamp": f"{day}T10:00:00Z",
            "message": {"role": "user", "content": text},
        }
        (files / f"{name}.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return made


def kept(shell: Shell) -> dict[str, str]:
    memories = shell.fine("list", "--scope", "shop", "--json").json["memories"]
    return {memory["content"]: memory["occurred"][:10] for memory in memories}


DATED = {DECIDED: "2026-02-03", TABS: "2026-11-12"}


def test_init_offers_them_on_a_terminal(shell: Shell, folder: Path) -> None:
    with Terminal("init", "--no-claude-md", folder=folder, environment=os.environ) as terminal:
        terminal.answer("[Y/n]", "y\r")
        terminal.answer("2 past conversations, from 2026-02-03 to 2026-11-12", "")
        terminal.answer(f"preference: {TABS}", "")
        terminal.answer("Shall they be read now?", "y\r")
        assert terminal.end() == 0, terminal.said
    assert "Read 2 conversations: 2 memories for shop" in terminal.said
    assert kept(shell) == DATED


def test_a_no_reads_nothing_and_says_how_to_do_it_later(shell: Shell, folder: Path) -> None:
    with Terminal("init", "--no-claude-md", folder=folder, environment=os.environ) as terminal:
        terminal.answer("[Y/n]", "y\r")
        terminal.answer("Shall they be read now?", "n\r")
        assert terminal.end() == 0
    assert "`mindhold capture --past` reads them later." in terminal.said
    assert kept(shell) == {}
    with Terminal("init", "--no-claude-md", "--no-past", folder=folder, environment=os.environ) as terminal:
        assert terminal.end() == 0
    assert "past conversation" not in terminal.said


def test_yes_leaves_them_out_unless_they_are_asked_for(shell: Shell, folder: Path) -> None:
    assert "past" not in shell.fine("init", "--yes", "--json").json
    assert kept(shell) == {}
    done = shell.fine("init", "--yes", "--past", "--json").json
    assert (done["past"]["conversations"], done["past"]["kinds"]) == (2, {"decision": 1, "preference": 1})
    assert kept(shell) == DATED
    assert shell("init", "--global", "--past", "--yes").status == 2


def test_as_a_command(shell: Shell, folder: Path) -> None:
    shell.fine("init", "--yes")
    shown = shell.fine("capture", "--past", "--preview").out
    assert shown.startswith("2 past conversations, from 2026-02-03 to 2026-11-12")
    assert TABS in shown
    assert shell.fine("capture", "--past", "--preview", "--json").json["conversations"] == 2
    refused = shell("capture", "--past")
    assert refused.status == 5
    assert "--yes" in refused.err
    assert kept(shell) == {}
    first = shell.fine("capture", "--past", "--limit", "1", "--yes").out
    assert first == "Read 1 conversation: 1 memory for shop (1 preference).\n"
    assert "1 past conversation of the 2 of this project" in shell.fine("capture", "--past", "--preview").out
    shell.fine("capture", "--past", "--yes")
    assert kept(shell) == DATED
    assert "No past conversation" in shell.fine("capture", "--past").out
    assert shell("capture").status == shell("capture", "--past", "x.jsonl").status == 2
    assert shell("-o", "history.enabled=false", "capture", "--past", "--yes").status == 5
