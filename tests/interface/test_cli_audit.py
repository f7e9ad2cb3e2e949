"""`mindhold audit`, `unarchive`, `scopes retire` and the flag --archived, as a person and as a program read them."""

from __future__ import annotations

import pytest
from cli_shell import Shell
from test_cli_consolidate import age


def test_nothing_yet(shell: Shell) -> None:
    assert "Upkeep has changed nothing yet." in shell.fine("audit").out
    assert shell.fine("audit", "list", "--json").json == {"records": []}
    assert shell("audit", "show", "nothing").status == 3


@pytest.mark.local_file
def test_what_upkeep_archived_is_found_and_comes_back(shell: Shell) -> None:
    one = shell.remember("The harbour has nine cranes", "--kind", "fact")
    other = shell.remember("The pier is of oak", "--kind", "fact")
    age(shell)
    shell.fine("consolidate")
    assert shell.found("harbour cranes") == []
    assert one in shell.fine("recall", "harbour cranes", "--archived").out
    listed = shell.fine("list", "--archived")
    assert one in listed.out
    assert other in listed.out
    assert "mindhold unarchive ID" in listed.err
    assert shell("list", "--archived", "--status", "forgotten").status == 2
    assert "Brought back 1 memory." in shell.fine("unarchive", one).out
    assert shell.found("harbour cranes") == ["The harbour has nine cranes"]
    [kept] = shell.fine("audit", "--json").json["records"]
    told = shell.fine("audit").out
    assert f"back: mindhold audit undo {kept['id']}" in told
    shown = shell.fine("audit", "show", kept["id"]).out
    assert f"archived {other}  unused for 400 days" in shown
    assert "oak" not in shown
    done = shell.fine("audit", "undo", kept["id"])
    assert "Brought back 1 memory." in done.out
    assert "1 other is not in the archive any more." in done.err
    assert shell.found("pier oak") == ["The pier is of oak"]
    assert shell.fine("audit", "undo", kept["id"], "--json").json["restored"] == []


def test_a_scope_is_retired_and_revived(shell: Shell) -> None:
    shell.fine("scopes", "create", "mill")
    one = shell.remember("The mill grinds barley", "--scope", "mill")
    done = shell.fine("scopes", "retire", "mill")
    assert "Retired mill with 1 memory." in done.out
    assert "backups/scope-mill-" in done.out
    assert "mindhold scopes revive mill" in done.err
    assert shell.fine("recall", "barley", "--everywhere", "--json").json["hits"] == []
    assert [
        hit["id"] for hit in shell.fine("recall", "barley", "--scope", "mill", "--json").json["hits"]
    ] == [one]
    assert "Revived mill." in shell.fine("scopes", "revive", "mill").out
    assert [hit["id"] for hit in shell.fine("recall", "barley", "-e", "--json").json["hits"]] == [one]
    assert shell("scopes", "retire", "mill", "--delete").status == 5, "nobody is there to ask"
    gone = shell.fine("scopes", "retire", "mill", "--delete", "--yes")
    assert "Nothing is left." in gone.out
    assert shell("scopes", "show", "mill").status == 3
