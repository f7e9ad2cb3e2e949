"""Contradictions, and the model that tells them, from the shell."""

from __future__ import annotations

from pathlib import Path

from cli_shell import Shell

from support.tiny_models import write_tiny_nli

OLD = "The request timeout of the billing gateway is 30 seconds."
NEW = "The request timeout of the billing gateway is 60 seconds."
REDIS = "We use Redis for the sessions of the web shop."
MEMCACHED = "We use Memcached for the sessions of the web shop."


def test_a_contradiction_is_found_shown_and_taken_back(shell: Shell) -> None:
    assert "None is known" in shell.fine("contradictions", "list").out
    for text in (OLD, NEW):
        shell.fine("remember", text)
    assert "1 contradicted" in shell.fine("consolidate", "--stage", "contradictions").out
    listed = shell.fine("contradictions")
    assert listed == shell.fine("contradictions", "list")
    assert shell.fine("contradictions", "--json").json["found"]
    assert OLD in listed.out
    assert NEW in listed.out
    assert "undo ID" in listed.err
    [one] = shell.fine("contradictions", "list", "--json").json["found"]
    assert "Both stand" in shell.fine("contradictions", "undo", one["id"][:8]).out
    assert "None is known" in shell.fine("contradictions", "list").out
    assert shell("contradictions", "undo", one["id"]).status == 3
    assert "must not be empty" in shell("contradictions", "undo", "").err


def test_a_doubtful_one_is_confirmed_or_dismissed(shell: Shell) -> None:
    for text in (REDIS, MEMCACHED):
        shell.fine("remember", text)
    shell.fine("consolidate", "--stage", "contradictions,pending")
    listed = shell.fine("contradictions", "list")
    assert "Doubtful" in listed.out
    [one] = shell.fine("contradictions", "list", "--json").json["pending"]
    confirmed = shell.fine("contradictions", "confirm", one["id"], "--json").json["contradiction"]
    assert confirmed["older"]["content"] == REDIS
    assert shell("contradictions", "dismiss", one["id"]).status == 3
    assert "Found" in shell.fine("contradictions", "list").out


def test_a_model_of_a_folder_is_pulled_shown_used_and_removed(shell: Shell, tmp_path: Path) -> None:
    write_tiny_nli(tmp_path / "tiny-nli")
    assert "judged by  rules\n" in shell.fine("status").out
    assert "tiny-nli is here" in shell.fine("models", "pull", str(tmp_path / "tiny-nli")).out
    [model] = [
        one for one in shell.fine("models", "list", "--json").json["models"] if one["name"] == "tiny-nli"
    ]
    assert (model["installed"], model["active"], model["dimensions"]) == (True, True, 0)
    assert "rules and tiny-nli" in shell.fine("status").out
    assert shell("models", "use", "tiny-nli").status == 8, "it embeds nothing"
    shell.fine("config", "set", "nli.model", "none")
    assert shell.fine("status", "--json").json["classifier"] == "rules"
    shell.fine("models", "remove", "tiny-nli")
    names = {one["name"] for one in shell.fine("models", "list", "--json").json["models"] if one["installed"]}
    assert "tiny-nli" not in names
