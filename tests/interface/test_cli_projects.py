"""`mindhold projects` and `migrate`, with a real server on the other side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_shell import Shell


@pytest.fixture
def shop(shell: Shell, postgres_url: str) -> Shell:
    """A project in PostgreSQL with two memories."""
    shell.patch.setenv("MINDHOLD_POSTGRES_URL", postgres_url)
    told = shell.fine("projects", "create", "shop", "--storage", "postgres", "--description", "Lamps")
    assert told.out == "Created shop in postgres.\n"
    for text in ("The shop opens at nine", "Parcels leave on Mondays"):
        shell.remember(text, "--scope", "shop")
    return shell


def test_a_project_is_made_listed_moved_and_found(shop: Shell) -> None:
    assert shop.found("when does the shop open", "--scope", "shop")[0] == "The shop opens at nine"
    listed = shop.fine("projects", "list").out
    assert ["shop", "postgres", "2"] in [line.split() for line in listed.splitlines()]
    told = shop.fine("migrate", "shop", "--to", "local")
    assert "Moved shop from postgres to local: 2 memories, 0 versions, 0 links, 2 vectors." in told.out
    assert "the same counts and content hashes" in told.out
    assert "hidden copy is kept in postgres" in told.err
    shown = shop.fine("projects", "show", "shop", "--json").json
    assert (shown["storage_mode"], shown["copies"], shown["memories"]) == ("local", ["postgres"], 2)
    assert "a hidden copy in postgres" in shop.fine("projects", "show", "shop").out
    assert shop("migrate", "shop", "--drop-source").status == 5, "asked, and nobody answers"
    assert shop("migrate", "shop", "--forget-copy", "mongodb", "--yes").status == 2, "there is none"
    dropped = shop.fine("migrate", "shop", "--drop-source", "--yes")
    assert "Erased the copy that was left behind: 2 memories." in dropped.out
    assert shop.found("when does the shop open", "--scope", "shop")[0] == "The shop opens at nine"


def test_a_project_is_changed_and_deleted(shop: Shell, tmp_path: Path) -> None:
    changed = shop.fine(
        "projects", "change", "shop", "--description", "Tea", "--path", str(tmp_path), "--inactive"
    )
    assert changed.out == "Changed shop.\n"
    shown = shop.fine("projects", "show", "shop", "--json").json
    assert (shown["description"], shown["path"], shown["active"]) == ("Tea", str(tmp_path), False)
    told = shop.fine(
        "projects", "change", "shop", "--active", "--keyword", "tea,pot", "--path", "", "--json"
    ).json
    assert (told["active"], told["path"], told["settings"]["keywords"]) == (True, None, ["tea", "pot"])
    assert shop("projects", "change", "shop").status == 2
    assert shop("projects", "delete", "shop").status == 5, "asked, and nobody answers"
    gone = shop.fine("projects", "delete", "SHOP", "--yes").out
    assert "Deleted shop with 2 memories." in gone
    assert "A second look found nothing of it." in gone
    export = Path(gone.split("Exported first to ")[1].splitlines()[0])
    assert "Parcels leave on Mondays" in export.read_text(encoding="utf-8")
    assert shop("projects", "show", "shop").status == 3
    assert shop("projects", "delete", "Global", "--yes").status == 5


def test_the_module_is_the_same_command(shop: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mindhold.migrate", "shop", "--to", "local", "--json"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["moved"], told["memories"], told["kept_in"]) == (True, 2, ["postgres"])
    assert shop.fine("migrate", "shop", "--to", "local", "--json").json["moved"] is False


def test_progress_is_a_bar_on_terminals(shop: Shell) -> None:
    assert "copy" in shop("migrate", "shop", "--to", "local", terminal=True).err
    assert shop("migrate", "shop", "--to", "postgres", "--quiet", terminal=True).err == ""


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["migrate", "Global", "--to", "postgres"], 5, "home store"),
        (["migrate", "nowhere", "--to", "local"], 3, "no scope"),
        (["migrate", "shop"], 2, "--to"),
        (["migrate", "shop", "--to", "attic"], 2, "attic"),
        (["projects", "show", "nowhere"], 3, "no scope"),
        (["projects", "create", "SHOP"], 4, "exists already"),
    ],
)
def test_what_cannot_be_done_is_told(shop: Shell, argv: list[str], status: int, words: str) -> None:
    answer = shop(*argv)
    assert answer.status == status
    assert words in answer.err


def test_a_server_that_is_not_configured_is_a_wrong_setting(shell: Shell) -> None:
    answer = shell("projects", "create", "shop", "--storage", "postgres")
    assert answer.status == 6
    assert "postgres.url" in answer.err
    assert shell.fine("projects", "list").out.startswith("There is no project yet.")


def test_status_names_the_stores_in_use(shop: Shell) -> None:
    assert "local ok; postgres ok (shop)" in shop.fine("status").out
    shop.patch.setenv("MINDHOLD_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/none")
    told = shop.fine("status", "--json").json
    assert told["storage"]["postgres"]["state"] == "STORE_AWAY"
    assert shop("recall", "parcels", "--scope", "shop").status == 7
    assert shop.fine("recall", "parcels").status == 0
    assert shop("doctor").status == 1
