"""`mindhold versions` and `mindhold reconstruct` at the shell."""

from __future__ import annotations

from cli_shell import Shell


def kept(shell: Shell, text: str, *options: str) -> str:
    found: str = shell.fine("remember", text, *options, "--json").json["id"]
    return found


def test_versions_say_who_when_and_what(shell: Shell) -> None:
    memory_id = kept(shell, "The harbour closes at nine.", "--topic", "harbour")
    shell.fine("amend", memory_id, "--content", "The harbour closes at ten.")
    told = shell.fine("versions", memory_id[:20]).out
    assert told.index("closes at nine") < told.index("closes at ten")
    assert "1. " in told
    assert "to now, by default" in told
    assert "changed: content" in told
    shown = shell.fine("versions", memory_id, "-n", "1", "--json").json
    assert (shown["count"], shown["earlier"]) == (2, 1)
    assert shell("versions", "zz").status == 3


def test_a_chain_of_decisions(shell: Shell) -> None:
    kept(
        shell, "Water comes from the well.", "--kind", "decision", "--topic", "water", "--when", "2026-01-01"
    )
    second = kept(
        shell, "Rain fills the tank.", "--kind", "decision", "--topic", "water", "--when", "2026-02-01"
    )
    error = kept(shell, "The well froze.", "--kind", "error", "--topic", "frost")
    shell.fine("link", error, second, "--relation", "resolved_by")
    told = shell.fine("reconstruct", "water").out
    assert told.index("2026-01-01") < told.index("2026-02-01")
    assert f"← resolved_by {error}  error: The well froze." in told
    assert shell.fine("reconstruct", "water", "--budget", "6", "--json").json["left_out"] == 1
    nothing = shell.fine("reconstruct", "water", "--budget", "1").err
    assert "2 decisions did not fit the budget." in nothing
    assert "No decision" not in nothing
    assert "No decision is remembered on that." in shell.fine("reconstruct", "giraffes").err
