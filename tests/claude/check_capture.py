"""Silent capture with a real Claude Code: what one conversation decides, the next one knows. Run by `make test-claude`.

The tests are the steps of one story, in order, in one folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from claude_code import NEWEST, Ran, claude, surrounded
from scripted import Say, Use

PATIENCE = 90.0
CHECK = "import json, sys\nsettings = json.load(open('settings.json'))\nprint('all good', settings)\n"
GUIDE = "# Lamp shop\r\n\r\nRead this first.\r\n"
DECIDES = (
    "Let's use PostgreSQL instead of MySQL for the orders database, because we need JSON columns. "
    "From now on always indent with tabs, never with spaces. Then run the check."
)
FAILING = Use("Bash", {"command": "python3 check.py", "description": "Run the check"})
FIXING = Use("Bash", {"command": "echo '{}' > settings.json", "description": "Create the settings file"})
TOLD = Say(
    "The check passes now. The problem was that check.py needs settings.json; it failed with FileNotFoundError and I "
    "fixed it by creating settings.json with an empty object."
)


@dataclass(frozen=True, slots=True)
class Desk:
    """A person's folder and home."""

    folder: Path
    user: Path
    client: str = NEWEST

    def environment(self) -> dict[str, str]:
        programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return surrounded(self.user, PATH=programs)

    def mindhold(self, *argv: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mindhold", *argv],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def converse(self, prompt: str, *turns: Say | Use, go_on: bool = False) -> Ran:
        """A conversation, and the silence after it in which the worker does its work."""
        argv = ["-p", *(["--continue"] if go_on else []), prompt, "--allowedTools", "Bash"]
        path = self.environment()["PATH"]
        ran = claude(argv, turns, folder=self.folder, user=self.user, client=self.client, PATH=path)
        self.settle()
        return ran

    def settle(self) -> None:
        """Until nothing waits and nobody works."""
        end = time.monotonic() + PATIENCE
        while list((self.user / ".mindhold/hooks/waiting").glob("*.json")) or self.workers():
            assert time.monotonic() < end, f"still at work: {self.workers()}"
            time.sleep(0.1)

    def workers(self) -> list[int]:
        """What runs of ours for this person."""
        return [process.pid for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            ours = "mindhold" in " ".join(process.cmdline())
            return ours and process.environ().get("HOME") == str(self.user)
        except psutil.Error:
            return False

    def tree(self) -> dict[str, bytes | None]:
        """Everything in the folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
        }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    root = tmp_path_factory.mktemp("person")
    desk = Desk(root / "lamp shop", root / "user")
    desk.user.mkdir()
    (desk.folder / ".claude").mkdir(parents=True)
    (desk.folder / "check.py").write_text(CHECK, encoding="utf-8")
    (desk.folder / "CLAUDE.md").write_bytes(GUIDE.encode())
    (desk.folder / ".claude/settings.json").write_text('{\n    "model": "opus",\n    "hooks": {}\n}', "utf-8")
    return desk


@pytest.fixture(scope="module")
def before(desk: Desk) -> dict[str, bytes | None]:
    """The folder as it was."""
    return desk.tree()


def given(ran: Ran, number: int = 0) -> str:
    """All that the model was given with one request."""
    return json.dumps(ran.requests[number], ensure_ascii=False)


def test_one_command_sets_a_project_up(desk: Desk, before: dict[str, bytes | None]) -> None:
    desk.mindhold("init", "--yes", "--claude-md")
    after = desk.tree()
    assert desk.mindhold("init", "--yes", "--claude-md")
    assert desk.tree() == after, "a second time changes nothing"
    assert set(after) - set(before) == {".mcp.json"}
    settings = json.loads((desk.folder / ".claude/settings.json").read_text("utf-8"))
    assert settings["model"] == "opus"
    assert {"SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"} <= settings[
        "hooks"
    ].keys()


def test_a_conversation_is_captured_in_silence(desk: Desk) -> None:
    ran = desk.converse(DECIDES, FAILING, FIXING, FAILING, TOLD)
    assert ran.said == TOLD.text
    assert len(ran.requests) == 4, "no hook kept the agent at work"
    kept = {one["kind"] for one in json.loads(desk.mindhold("list", "--json"))["memories"]}
    assert {"decision", "preference", "error"} <= kept


def test_claude_md_shows_it_and_the_rest_stays(desk: Desk) -> None:
    text = (desk.folder / "CLAUDE.md").read_bytes()
    assert text.startswith(GUIDE.encode())
    block = text.partition(b"<!-- MEMORY:START -->")[2].partition(b"<!-- MEMORY:END -->")[0].decode()
    assert "PostgreSQL" in block
    assert "tabs" in block
    assert "settings.json" in block
    assert b"\n" not in text.replace(b"\r\n", b""), "its line endings are the file's"


def test_the_next_conversation_knows(desk: Desk) -> None:
    ran = desk.converse("Hello again.", Say("Hello."))
    start = [text for text in _reminders(ran) if "data to weigh" in text]
    assert any("PostgreSQL instead of MySQL" in text for text in start)
    assert any("indent with tabs" in text for text in start)


def test_a_prompt_brings_to_mind_what_it_is_about_once(desk: Desk) -> None:
    note = "The invoice printer in the cellar only takes A5 paper."
    desk.mindhold("remember", note, "--kind", "fact")
    ran = desk.converse("Which paper does the invoice printer take?", Say("A5."))
    assert _brought(ran, note) == 1
    again = desk.converse("And which paper does the invoice printer take now?", Say("A5."), go_on=True)
    assert _brought(again, note) == 1, "it was told before, and is not told again"


def test_a_repeated_error_brings_its_fix(desk: Desk) -> None:
    (desk.folder / "settings.json").unlink()
    ran = desk.converse("Check it.", FAILING, Say("I know that one."))
    assert "creating settings.json" in given(ran, 1) or "echo '{}' > settings.json" in given(ran, 1)
    fixes = [text for text in _reminders(ran, 1) if "FileNotFoundError" in text and "data to weigh" in text]
    assert fixes


def test_compaction_keeps_it(desk: Desk) -> None:
    desk.converse("/compact", Say("A summary that says nothing."), go_on=True)
    ran = desk.converse("Where were we?", Say("Here."), go_on=True)
    told = [text for text in _reminders(ran) if "PostgreSQL instead of MySQL" in text]
    assert len(told) == 1, "it stands in CLAUDE.md, which is read anew, so hooks don't tell it again"
    assert "data to weigh" in told[0]


def test_compaction_keeps_what_claude_md_does_not_tell(desk: Desk) -> None:
    document = desk.folder / "CLAUDE.md"
    written = document.read_bytes()
    document.write_bytes(GUIDE.encode())
    desk.converse("/compact", Say("A summary that says nothing."), go_on=True)
    ran = desk.converse("Where were we?", Say("Here."), go_on=True)
    told = [text for text in _reminders(ran) if "hook additional context" in text]
    document.write_bytes(written)
    assert any("PostgreSQL instead of MySQL" in text for text in told)


def test_nothing_is_left_running(desk: Desk) -> None:
    assert desk.workers() == []


def test_status_says_what_was_captured(desk: Desk) -> None:
    told = desk.mindhold("status")
    assert "captured" in told
    assert "rules" in told


def test_uninstall_leaves_the_tree_as_it_was(desk: Desk, before: dict[str, bytes | None]) -> None:
    desk.mindhold("uninstall", "--yes")
    assert desk.tree() == before
    desk.converse("Use Redis for the sessions from now on.", Say("Good."))
    assert "Redis" not in desk.mindhold("list", "--json")


def _brought(ran: Ran, note: str) -> int:
    """How often hooks brought it to mind: CLAUDE.md shows it besides."""
    return sum(text.count(f"- fact: {note}") for text in _reminders(ran) if "hook additional context" in text)


def _reminders(ran: Ran, number: int = 0) -> list[str]:
    """The texts that the model was given, from the latest request of that number on."""
    found: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(ran.requests[number].get("messages"))
    collect(ran.requests[number].get("system"))
    return found
