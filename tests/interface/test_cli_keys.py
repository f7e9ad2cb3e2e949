"""Keys from the shell."""

from __future__ import annotations

import re

from cli_shell import Shell


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


def test_an_all_seeing_key_is_told_to_be_one(shell: Shell) -> None:
    assert "every agent" in shell.fine("keys", "create", "root", "--for-agent", "system").err
