"""Hooks in the newest Claude Code and in one that ignores their `args`, as written now and before. Run by `make test-claude`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_capture import Desk
from claude_code import NEWEST, OLD
from scripted import Say

DECIDES = "We decided to use PostgreSQL for the orders database, because the order reports need joins."
WROTE = "From now on always indent the order reports with tabs, never with spaces."


@pytest.fixture(params=[NEWEST, OLD])
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Desk:
    desk = Desk(tmp_path / "lamp shop", tmp_path / "user", request.param)
    desk.user.mkdir()
    desk.folder.mkdir()
    desk.mindhold("init", "--yes", "--no-mcp", "--statusline")
    return desk


@pytest.mark.parametrize("form", ["line", "args"])
def test_what_is_said_is_captured_and_given_to_the_next_conversation(desk: Desk, form: str) -> None:
    if form == "args":
        as_written_before(desk.folder / ".claude/settings.json")
    first = desk.converse(f"{DECIDES} {WROTE}", Say("Good: PostgreSQL it is, and tabs."))
    captured = json.loads(desk.mindhold("list", "--json"))["memories"]
    assert any("PostgreSQL" in memory["content"] for memory in captured)
    second = desk.converse("Hello again.", Say("Hello."))
    for ran in (first, second):
        assert "Usage: mindhold" not in json.dumps(ran.requests)
    assert "PostgreSQL" in json.dumps(second.requests[0])


def as_written_before(path: Path) -> None:
    """The hooks as they were written when they had `args`."""
    settings = json.loads(path.read_text("utf-8"))
    for groups in settings["hooks"].values():
        for group in groups:
            for handler in group["hooks"]:
                handler["command"], *handler["args"] = handler["command"].split()
    path.write_text(json.dumps(settings), "utf-8")
