"""Keys from the shell."""

from __future__ import annotations

import re

from cli_shell import Shell
from mcp_clients import HttpServer


def test_the_life_of_a_key(shell: Shell) -> None:
    shell.fine("scopes", "create", "work")
    assert "No key was made" in shell.fine("keys", "list").out
    made = shell.fine("keys", "create", "laptop")
    assert re.fullmatch(r"rk_[\w-]{43}\n", made.out), "the key alone, so that it can be piped"
    assert "not shown again" in made.err
    bound = shell.fine(
        "keys",
        "create",
        "ci",
        "--for-agent",
        "ci",
        "--scope",
        "work,Global",
        "--read-only",
        "--days",
        "9",
        "--json",
    ).json
    assert (bound["agent"], bound["scopes"], bound["access"]) == ("ci", ["work", "Global"], "read")
    listed = shell.fine("keys", "list")
    assert "laptop" in listed.out
    assert bound["key"] not in listed.out + shell.fine("keys", "list", "--json").out
    assert made.out.strip() not in listed.out
    assert [key["name"] for key in shell.fine("keys", "list", "--json").json["keys"]] == ["ci", "laptop"]
    assert "ended" in shell.fine("keys", "revoke", "laptop").out
    assert shell.fine("keys", "revoke", bound["id"][:-1], "--json").json == {"id": bound["id"], "name": "ci"}
    assert shell.fine("keys", "list", "--json").json == {"keys": [], "grants": []}


def test_what_cannot_be(shell: Shell) -> None:
    shell.fine("keys", "create", "laptop")
    for argv, status in (
        (["create", "LAPTOP"], 4),
        (["create", " "], 2),
        (["create", "x", "--scope", "nowhere"], 3),
        (["create", "x", "--for-agent", " admin"], 2),
        (["create", "x", "--for-agent", "Admin"], 2),
        (["create", "x", "--days", "0"], 2),
        (["revoke", "nobody"], 3),
        (["revoke", ""], 3),
    ):
        assert shell("keys", *argv).status == status, argv


def test_who_makes_keys_for_an_open_door_is_told(shell: Shell) -> None:
    warning = "restrict nobody on this machine"
    for format in ([], ["--json"]):
        made = shell.fine("keys", "create", f"laptop {format}", *format)
        assert warning in made.err
        assert warning not in made.out
    shell.patch.setenv("MINDHOLD_ACCESS_KEY", "correct-horse-battery-staple")
    assert warning not in shell.fine("keys", "create", "phone").err


def test_a_server_with_keys_and_an_open_door_says_so(shell: Shell) -> None:
    warning = "restrict nobody on this machine"

    def told(**settings: str) -> str:
        with HttpServer(shell.home, **settings) as server:
            return " ".join(" ".join(server.said).split())

    assert warning not in told()
    shell.fine("keys", "create", "laptop")
    assert warning in told()
    assert warning not in told(MINDHOLD_ACCESS_KEY="correct-horse-battery-staple")
    assert "restrict nobody" in " ".join(shell.fine("serve", "--help").out.split())


def test_an_all_seeing_key_is_told_to_be_one(shell: Shell) -> None:
    assert "every agent" in shell.fine("keys", "create", "root", "--for-agent", "system").err
