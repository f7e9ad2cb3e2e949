"""Setting up where files are others', odd, moved or written by many at once: as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

THEIRS = {
    "hooks": {
        "Stop": [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": "tee -a ~/events.log | mindhold hook Stop; ./scripts/notify-team.sh",
                    }
                ]
            }
        ],
        "Notification": [{"hooks": [{"type": "command", "command": 'notify-send "mindhold hook has news"'}]}],
        "PreToolUse": [
            {"hooks": [{"type": "command", "command": "git -C ~/src/mindhold hook run pre-commit"}]}
        ],
    },
    "statusLine": {"type": "command", "command": 'i=$(cat); echo "$i" | mindhold statusline'},
}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with folders to work in."""

    root: Path
    environment: Mapping[str, str]

    def __call__(self, *argv: str, at: str = "p") -> subprocess.CompletedProcess[str]:
        folder = self.root / at
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "mindhold", *argv],
            cwd=folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def fine(self, *argv: str, at: str = "p") -> str:
        done = self(*argv, at=at)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, content: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        return path

    @property
    def home(self) -> Path:
        return Path(self.environment["MINDHOLD_HOME"])


@pytest.fixture
def person(tmp_path: Path, environment: dict[str, str]) -> Person:
    user = tmp_path / "user"
    user.mkdir()
    programs = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    left_out = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME")
    kept = {name: value for name, value in environment.items() if name not in left_out}
    own = {"HOME": str(user), "USERPROFILE": str(user), "APPDATA": str(user / "roaming"), "PATH": programs}
    return Person(tmp_path, kept | own)


def test_commands_of_others_that_name_mindhold_stay_theirs(person: Person) -> None:
    source = json.dumps(THEIRS, indent=2)
    path = person.write("p/.claude/settings.json", source)
    person.fine("uninstall", "--yes")
    assert path.read_text() == source
    refused = person("init", "--yes", "--statusline")
    assert (refused.returncode, path.read_text()) == (4, source)
    person.fine("init", "--yes")
    settings = json.loads(path.read_text())
    assert settings["hooks"]["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    path.write_text(json.dumps(settings | {"model": "opus"}))
    person.fine("uninstall", "--yes")
    assert json.loads(path.read_text()) == THEIRS | {"model": "opus"}


def test_a_home_that_was_named_goes_even_without_notes(person: Person) -> None:
    other = ("--home", str(person.root / "other"))
    person.fine(*other, "init", "--yes")
    path = person.root / "p" / ".mcp.json"
    servers = json.loads(path.read_text())
    servers["mcpServers"]["mindhold"]["env"]["HTTPS_PROXY"] = "http://proxy"
    path.write_text(text := json.dumps(servers))
    assert "nothing was changed" in person.fine(*other, "init", "--yes")
    assert path.read_text() == text
    person.fine("uninstall", "--yes")
    assert list((person.root / "p").iterdir()) == []


def test_a_folder_that_was_moved_is_left_clean(person: Person) -> None:
    person.fine("init", "--yes", "--claude-md")
    (person.root / "p").rename(person.root / "moved")
    person.fine("uninstall", "--yes", at="moved")
    assert list((person.root / "moved").iterdir()) == []


def test_many_at_once_are_all_noted(person: Person) -> None:
    names = [f"p{number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: person.fine("init", "--yes", at=name), names))
    noted = json.loads((person.home / "installed.json").read_text())
    folders = {str((person.root / name).resolve()) for name in names}
    assert {one["place"] for one in noted["files"]} == folders
    assert {one["folder"] for one in noted["projects"]} == folders


def test_codex_with_a_byte_order_mark_gives_it_back(person: Person) -> None:
    path = person.write("user/.codex/config.toml", '\ufeffmodel = "o"\n')
    person.fine("connect", "codex", "--yes")
    path.write_bytes(path.read_bytes() + b"\n[more]\na = 1\n")
    person.fine("connect", "codex", "--remove", "--yes")
    assert "mindhold" not in (left := path.read_text("utf-8"))
    assert left.startswith('\ufeffmodel = "o"\n')


def test_what_is_wrong_is_told_with_its_place_and_the_way_out(person: Person) -> None:
    person.write("p/.claude/settings.json", '{\n  "hooks": []\n}')
    told = person("init", "--yes")
    assert told.returncode == 2
    assert "line 2, column 12: hooks should be an object" in told.stderr
    (person.root / "p" / ".claude" / "settings.json").unlink()
    person.write("p/.mcp.json", '{"mcpServers": {"mindhold": {"type": "http", "url": "http://127.0.0.1"}}}')
    told = person("init", "--yes")
    assert told.returncode == 4
    assert "--no-mcp" in told.stderr
