"""What a hook learns from its surroundings and from marks in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindhold.hooks.environment import (
    OWN_CALL_MARK,
    SKIP_MARK,
    agent_name,
    capture_enabled,
    excluded_folders,
    has_skip_mark,
    home_folder,
    is_skipped,
    project_dir,
    worker_environment,
)
from mindhold.settings.loader import load_settings


@pytest.mark.parametrize("given", ["", "~/elsewhere", "relative/place"])
def test_the_home_is_the_one_of_the_settings(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    environ = {"MINDHOLD_HOME": given} if given else {}
    assert home_folder(environ) == str(load_settings(environ=environ).settings.home)
    assert home_folder({"MINDHOLD_HOME": "/not/this"}, override=str(tmp_path)) == str(tmp_path)


def test_own_calls_and_those_who_say_so_are_left_alone() -> None:
    assert not is_skipped({})
    assert not is_skipped({"MINDHOLD_SKIP": ""})
    assert is_skipped({"MINDHOLD_SKIP": "1"})
    assert is_skipped({"MINDHOLD_EXTRACTING": "1"})
    assert has_skip_mark("please [skip-hook] this")
    assert has_skip_mark("fine", f"a line\n{OWN_CALL_MARK}\nanother")
    assert not has_skip_mark("skip-hook", None, 7, "")
    assert SKIP_MARK != OWN_CALL_MARK


def test_the_project_is_where_the_client_was_started(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    assert project_dir({"CLAUDE_PROJECT_DIR": str(tmp_path)}, str(below)) == str(tmp_path)
    assert project_dir({"CLAUDE_PROJECT_DIR": str(tmp_path / "gone")}, str(below)) == str(below)
    assert project_dir({}, str(below)) == str(below)
    assert project_dir({}, "") == str(Path.cwd())


def test_what_is_said_for_one_conversation_is_not_handed_to_the_worker_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {
        "MINDHOLD_AGENT": "alice",
        "MINDHOLD_CAPTURE_ENABLED": "Off",
        "MINDHOLD_CAPTURE_EXCLUDE": "secret",
    }
    assert (agent_name(own), capture_enabled(own), excluded_folders(own)) == ("alice", False, "secret")
    assert (agent_name({}), capture_enabled({}), excluded_folders({})) == ("", True, "")
    for name, value in {**own, "MINDHOLD_STORE_MODE": "local"}.items():
        monkeypatch.setenv(name, value)
    worker = worker_environment("/home")
    assert not own.keys() & worker.keys()
    assert (worker["MINDHOLD_HOME"], worker["MINDHOLD_STORE_MODE"]) == ("/home", "local")
