"""Where nobody names a scope, a call is made in the project of the folder that it is made in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from cli_shell import Shell
from mcp_clients import Wire

DECISION = "We chose Stripe Checkout because it needs no forms"


@pytest.fixture
def shop(shell: Shell, tmp_path: Path) -> Path:
    folder = tmp_path / "my shop"
    folder.mkdir()
    shell.fine("projects", "create", "shop", "--path", str(folder))
    return folder


def scope_of(shell: Shell, memory_id: str) -> str:
    found: str = shell.fine("show", memory_id, "--json").json["memory"]["scope"]
    return found


def test_in_its_folder_a_project_is_the_scope(shell: Shell, shop: Path) -> None:
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION)) == "shop"
    assert shell.found("stripe checkout") == [DECISION]
    shell.remember("A secret of another project is kept apart", "--scope", "Global")
    shell.fine("scopes", "create", "other")
    shell.remember("The other project has a parrot", "--scope", "other")
    listed = shell.fine("list").out
    assert "Stripe" in listed
    assert "parrot" not in listed
    assert "parrot" in shell.fine("list", "--everywhere").out
    assert shell.fine("config", "show", "scope", "--json").json, "the settings themselves are as they were"


def test_below_it_too_and_nowhere_else(shell: Shell, shop: Path, tmp_path: Path) -> None:
    (shop / "src" / "deep").mkdir(parents=True)
    shell.patch.chdir(shop / "src" / "deep")
    assert scope_of(shell, shell.remember(DECISION)) == "shop"
    shell.patch.chdir(tmp_path)
    assert shell.found("stripe checkout") == []
    assert scope_of(shell, shell.remember("The lamp is green and hangs in the hall")) == "Global"


def test_a_repository_below_it_is_another_project(shell: Shell, shop: Path) -> None:
    (shop / "vendor" / ".git").mkdir(parents=True)
    shell.patch.chdir(shop / "vendor")
    assert scope_of(shell, shell.remember(DECISION)) == "Global"


def test_worktrees_share_their_project(shell: Shell, tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for argv in (
        ["init", "-q", str(main)],
        ["-C", str(main), *author, "commit", "-q", "--allow-empty", "-m", "one"],
        ["-C", str(main), "worktree", "add", "-q", str(tree)],
    ):
        subprocess.run(["git", *argv], check=True, env={**os.environ, **identity})
    shell.fine("projects", "create", "main", "--path", str(main))
    shell.patch.chdir(tree)
    assert scope_of(shell, shell.remember(DECISION)) == "main"


def test_whoever_names_a_scope_is_heard(shell: Shell, shop: Path) -> None:
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION, "--scope", "Global")) == "Global"
    shell.patch.setenv("MINDHOLD_SCOPE", "Global")
    assert scope_of(shell, shell.remember("The lamp is green and hangs in the hall")) == "Global"


def test_a_project_that_is_put_away_takes_nothing(shell: Shell, shop: Path) -> None:
    shell.fine("scopes", "deactivate", "shop")
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION)) == "Global"


def test_a_folder_goes_before_what_the_settings_file_says(shell: Shell, shop: Path, tmp_path: Path) -> None:
    shell.fine("scopes", "create", "work")
    shell.fine("config", "set", "scope", "work")
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION)) == "shop"
    shell.patch.chdir(tmp_path)
    assert scope_of(shell, shell.remember("The lamp is green and hangs in the hall")) == "work"


def test_a_folder_that_becomes_a_repository_stays_its_project(shell: Shell, shop: Path) -> None:
    (shop / ".git").mkdir()
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION)) == "shop"
    shell.fine("capture", str(conversation(shop)))
    assert [one["name"] for one in shell.fine("projects", "list", "--json").json["projects"]] == ["shop"]


def test_a_repository_s_own_folder_is_named_after_it(shell: Shell, tmp_path: Path) -> None:
    tree = tmp_path / "barn" / "main"
    (tmp_path / "barn" / ".bare" / "worktrees" / "main").mkdir(parents=True)
    (tmp_path / "barn" / ".bare" / "worktrees" / "main" / "commondir").write_text("../..\n", "utf-8")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {tmp_path}/barn/.bare/worktrees/main\n", encoding="utf-8")
    shell.fine("capture", str(conversation(tree)))
    [project] = shell.fine("projects", "list", "--json").json["projects"]
    assert project["name"] == "barn"


def conversation(folder: Path) -> Path:
    """A transcript with a decision in it, held in the folder."""
    said = "Let's use PostgreSQL instead of MySQL for the orders, because we need JSON columns."
    entry = {
        "type": "user",
        "uuid": "1",
        "sessionId": "one",
        "cwd": str(folder),
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": "user", "content": said},
    }
    file = folder / "one.jsonl"
    file.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return file


def test_a_folder_that_is_gone_is_no_obstacle(shell: Shell, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    shell.patch.chdir(gone)
    gone.rmdir()
    assert scope_of(shell, shell.remember(DECISION)) == "Global"


@pytest.mark.parametrize("named", [True, False], ids=["named by Claude Code", "its own folder"])
def test_the_server_that_a_client_starts_is_in_the_project(
    shell: Shell, shop: Path, tmp_path: Path, named: bool
) -> None:
    if named:
        shell.patch.setenv("CLAUDE_PROJECT_DIR", str(shop))
    shell.patch.chdir(tmp_path if named else shop)
    with Wire(shell.home) as wire:
        told = wire.greet().call("remember", content=DECISION, topic="payment", type="decision")
    assert scope_of(shell, told["structuredContent"]["id"]) == "shop"


def test_where_hooks_are_at_work_the_first_conversation_of_a_folder_is_in_its_project(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "fresh"
    (folder / ".git").mkdir(parents=True)
    (shell.home / "hooks").mkdir(parents=True)
    shell.patch.setenv("CLAUDE_PROJECT_DIR", str(folder))
    with Wire(shell.home) as wire:
        told = wire.greet().call("remember", content=DECISION, topic="payment", type="decision")
    assert scope_of(shell, told["structuredContent"]["id"]) == "fresh"


def test_a_moved_project_is_found_again_by_its_name(shell: Shell, shop: Path, tmp_path: Path) -> None:
    shell.patch.setenv("HOME", str(tmp_path / "person"))
    shell.patch.setenv("USERPROFILE", str(tmp_path / "person"))
    shell.patch.chdir(shop)
    kept = shell.remember(DECISION)
    shell.patch.chdir(tmp_path)
    moved = shop.rename(tmp_path / "moved")
    shell.patch.chdir(moved)
    shell.fine("init", "--yes")
    assert shell.found("stripe checkout") == [], "it is another one to whoever says nothing"
    shell.fine("init", "--yes", "--name", "shop")
    assert shell.found("stripe checkout") == [DECISION]
    assert scope_of(shell, kept) == "shop"


def test_what_a_person_s_home_lies_in_is_no_project(shell: Shell, tmp_path: Path) -> None:
    person = tmp_path / "users" / "me"
    person.mkdir(parents=True)
    (shell.home / "hooks").mkdir(parents=True)
    shell.patch.setenv("HOME", str(person))
    shell.patch.setenv("USERPROFILE", str(person))
    for folder in (person, tmp_path / "users"):
        shell.patch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        with Wire(shell.home) as wire:
            told = wire.greet().call(
                "remember", content=f"The lamp in {folder.name} is green", topic="t", type="fact"
            )
        assert scope_of(shell, told["structuredContent"]["id"]) == "Global"
