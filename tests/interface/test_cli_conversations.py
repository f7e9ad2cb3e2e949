"""`mindhold context`, `reflect`, `explore`, `feedback` and `stats`."""

from __future__ import annotations

from cli_shell import Shell


def test_what_comes_to_mind(shell: Shell) -> None:
    assert "nothing to have in mind" in shell.fine("context").out
    shell.remember("She prefers tabs over spaces.", "--kind", "preference")
    shell.remember("We chose Adyen.", "--kind", "decision")
    told = shell.fine("context")
    assert "- (preference) She prefers tabs over spaces." in told.out
    assert "Adyen" not in told.out
    assert "1 of core memory" in told.err
    assert "Adyen" in shell.fine("context", "--kind", "decision").out
    assert shell.fine("context", "--budget", "5", "--json").json["tokens"] <= 5


def test_what_a_conversation_came_to(shell: Shell) -> None:
    points = ["--decision", "Use WAL mode.", "--decision", "No, really.", "--question", "Who pays?"]
    told = shell.fine("reflect", "We moved", "the store.", *points, "--success", "--highlight", "recall")
    assert told.out.startswith("Kept 4 memories; the summary is ")
    again = shell.fine("reflect", "-", "--json", stdin="We moved the store.").json
    assert (again["stored"], again["duplicates"]) == (0, 1)
    assert shell.fine("stats", "--json").json["tasks"] == {"succeeded": 1, "count": 1}
    assert shell("reflect", "x", "--highlight", "recall").status == 2
    assert shell("reflect").status == 2


def test_causes_and_resolutions(shell: Shell) -> None:
    error = shell.remember("The importer crashed at night.", "--kind", "error")
    cause = shell.remember("The disk was full of logs.")
    root = shell.remember("Nobody rotates the logs.")
    shell.fine("link", error, cause, "--relation", "caused_by")
    shell.fine("link", cause, root, "--relation", "caused_by")
    near = shell.fine("explore", error).out
    assert cause in near
    assert root not in near
    far = shell.fine("explore", error, "--depth", "2").out
    assert "2 links away" in far
    assert f"{cause} caused_by → {root}" in far
    assert [node["id"] for node in shell.fine("explore", error, "--json").json["nodes"]] == [cause]
    assert "Nothing is linked" in shell.fine("explore", error, "--relation", "resolved_by").out
    assert shell("explore", error, "--depth", "9").status == 2
    assert shell("explore", "zz").status == 3


def test_verdicts_and_their_report(shell: Shell) -> None:
    assert "Nobody has said anything" in shell.fine("feedback").out
    kept = shell.remember("The ferry to Oslo leaves at nine.")
    told = shell.fine(
        "feedback", "recall", "--irrelevant", "--suggestion", "Say \x1b[31m less", "--memory", kept[:20]
    )
    assert "1 of the memories count for less" in told.out
    assert shell.fine("feedback", "recall", "--relevant", "--json").json["rated"] == 0
    report = shell.fine("feedback")
    assert "recall" in report.out
    assert "50%" in report.out
    assert "\x1b[31m" not in report.out
    assert shell.fine("feedback", "--json").json["tools"]["recall"]["whole"]["count"] == 2
    assert shell("feedback", "recall").status == 2
    assert shell("feedback", "--relevant").status == 2
    assert shell("feedback", "recall", "--relevant", "--memory", "zz").status == 3


def test_how_much_there_is(shell: Shell) -> None:
    shell.remember("The ferry to Oslo leaves at nine.", "--kind", "fact")
    told = shell.fine("stats").out
    for words in ("memories       1", "by kind        fact 1", "by tier", "conversations  0"):
        assert words in told
    assert shell.fine("stats", "--json").json["total"] == 1
