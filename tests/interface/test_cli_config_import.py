"""Settings from a JSON file in the assistant contract's words."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell

FILE = {
    "mongodb": {"mode": "external", "uri": "mongodb://jane:hunter2@localhost:27017/claude_memory"},
    "backup": {"passphrase": "sesame"},
    "embedding": {"model": "all-MiniLM-L6-v2", "colour": "red"},
    "scopes": {"default": "Global"},
    "logging": {"level": "debug"},
    "recall": {"limit": 3},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "infinite_memory_config.json"
    path.write_text(json.dumps(FILE), encoding="utf-8")
    return path


def settings(shell: Shell) -> dict[str, Any]:
    return tomllib.loads((shell.home / "config.toml").read_text(encoding="utf-8"))


def test_what_it_says_is_written_and_all_else_stays(shell: Shell, file: Path) -> None:
    shell.home.mkdir(exist_ok=True)
    own = shell.home / "config.toml"
    own.write_text("# mine\n[recall]\nlimit = 7  # seven\n\n[log]\nkeep_days = 3\n", encoding="utf-8")
    before = own.read_bytes()
    dry = shell.fine("config", "import", str(file), "--dry-run")
    assert "Would set 6" in dry.out
    assert own.read_bytes() == before
    done = shell.fine("config", "import", str(file))
    assert "log.level = debug  (from logging.level)" in done.out
    assert "not known: embedding.colour" in done.out
    assert "not known: recall.limit" in done.out
    assert "not taken: backup.passphrase" in done.out
    for secret in ("hunter2", "sesame"):
        assert secret not in dry.out + dry.err + done.out + done.err
    text = own.read_text(encoding="utf-8")
    assert text.startswith("# mine\n")
    assert "limit = 7  # seven" in text
    assert settings(shell) == {
        "scope": "Global",
        "recall": {"limit": 7},
        "log": {"keep_days": 3, "level": "debug"},
        "store": {"mode": "mongodb"},
        "mongodb": {"mode": "external", "uri": FILE["mongodb"]["uri"]},  # type: ignore[index]
        "embedding": {"model": "all-MiniLM-L6-v2"},
    }
    after = own.read_bytes()
    again = shell.fine("config", "import", str(file))
    assert "says all of it already" in again.out
    assert own.read_bytes() == after
    assert shell.fine("config", "get", "log.level").out == "debug\n"


def test_its_json_says_the_same(shell: Shell, file: Path) -> None:
    told = shell.fine("config", "import", str(file), "--json").json
    by_key = {one["key"]: one for one in told["settings"]}
    assert by_key["mongodb.uri"] == {
        "key": "mongodb.uri",
        "value": "(hidden)",
        "from": "mongodb.uri",
        "changed": True,
    }
    assert told["unknown"] == ["embedding.colour", "recall.limit"]
    assert [one["from"] for one in told["left"]] == ["backup.passphrase"]
    assert told["dry_run"] is False
    again = shell.fine("config", "import", str(file), "--json").json
    assert not any(one["changed"] for one in again["settings"])


def test_a_wrong_value_is_told_and_the_others_are_taken(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text('{"time_zone": "Mars/Olympus", "log_level": "error"}', encoding="utf-8")
    answer = shell("config", "import", str(path))
    assert answer.status == 1
    assert "not taken: time_zone" in answer.out
    assert settings(shell) == {"log": {"level": "error"}}


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "nonsense"])
def test_what_is_no_such_file_changes_nothing(shell: Shell, tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="utf-8")
    assert shell("config", "import", str(path)).status == 2
    assert shell("config", "import", str(tmp_path / "absent.json")).status == 2
    assert not (shell.home / "config.toml").exists()


def test_a_settings_file_that_is_broken_is_left_alone(shell: Shell, file: Path) -> None:
    shell.home.mkdir(exist_ok=True)
    own = shell.home / "config.toml"
    own.write_text("[log\n", encoding="utf-8")
    assert shell("config", "import", str(file)).status == 6
    assert own.read_text(encoding="utf-8") == "[log\n"
