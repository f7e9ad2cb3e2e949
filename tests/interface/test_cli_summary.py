"""`mindhold projects summary`: what is known about a project, its versions, and one of them again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_shell import Shell


@pytest.fixture
def shop(shell: Shell, tmp_path: Path) -> Shell:
    """A project whose summary was written twice."""
    shell.fine("projects", "create", "shop")
    for number, words in enumerate(("It sells tea.", "It sells bread.")):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"summary": words, "key_decisions": ["Cash only"]}), encoding="utf-8")
        told = shell.fine("projects", "summary", "shop", "--write", str(path)).out
        assert told == f"Written anew: version {number + 1} of the summary of shop.\n"
    return shell


def test_it_is_shown_compared_and_restored(shop: Shell) -> None:
    shown = shop.fine("projects", "summary", "shop")
    assert shown.out.splitlines()[2:] == ["It sells bread.", "", "## Key decisions", "- Cash only"]
    assert "Version 2 of " in shown.err
    listed = [
        line.split() for line in shop.fine("projects", "summary", "shop", "--versions").out.splitlines()
    ]
    assert [line[0] for line in listed] == ["version", "2", "1"]
    assert listed[1][-1] == "replaced"
    assert "tea" in shop.fine("projects", "summary", "shop", "--version", "1").out
    compared = shop.fine("projects", "summary", "shop", "--diff", "1", "2").out.splitlines()
    assert {"-It sells tea.", "+It sells bread."} <= set(compared)
    assert shop.fine("projects", "summary", "shop", "--diff", "1", "1").out == "They say the same.\n"
    back = shop.fine("projects", "summary", "shop", "--restore", "1").out
    assert back == "It says what version 1 said: version 3 of the summary of shop.\n"
    assert shop.fine("projects", "summary", "shop", "--json").json["version"] == 3
    for option in (["--versions"], ["--version", "1"], ["--diff", "1", "2"], ["--restore", "2"]):
        assert isinstance(shop.fine("projects", "summary", "shop", *option, "--json").json, dict)


def test_a_project_without_one(shell: Shell) -> None:
    shell.fine("projects", "create", "shop")
    for option in ([], ["--versions"]):
        assert shell.fine("projects", "summary", "shop", *option).out == "There is no summary yet.\n"
    assert shell.fine("projects", "summary").out == "There is no summary yet.\n"


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["nowhere"], 3),
        (["shop", "--version", "7"], 3),
        (["shop", "--restore", "7"], 3),
        (["shop", "--restore", "0"], 2),
        (["shop", "--versions", "--restore", "1"], 2),
        (["shop", "--write", "no-such-file.json"], 2),
        (["shop", "--diff", "1"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be(shop: Shell, argv: list[str], status: int) -> None:
    assert shop("projects", "summary", *argv).status == status


@pytest.mark.parametrize(
    "text", ["no JSON", "[]", '{"project": "x", "summary": "y"}', '{"sumary": "y"}', "{}"]
)
def test_what_cannot_be_written(shop: Shell, tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="utf-8")
    assert shop("projects", "summary", "shop", "--write", str(path)).status == 2
    assert shop.fine("projects", "summary", "shop", "--json").json["version"] == 2
