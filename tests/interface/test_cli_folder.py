"""Where nobody names a scope, a call is made in the project of the folder that it is made in."""

from __future__ import annotations

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
    shell.patch.setenv("RECOLLECT_SCOPE", "Global")
    assert scope_of(shell, shell.remember("The lamp is green and hangs in the hall")) == "Global"


def test_a_project_that_is_put_away_takes_nothing(shell: Shell, shop: Path) -> None:
    shell.fine("scopes", "deactivate", "shop")
    shell.patch.chdir(shop)
    assert scope_of(shell, shell.remember(DECISION)) == "Global"


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
