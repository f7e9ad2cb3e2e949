"""Remember, recall, forget, amend, link, look around: what a person does all day."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import pytest
from cli_shell import Shell

PORT = "The staging database listens on port 5433"


def test_what_was_remembered_is_recalled(shell: Shell) -> None:
    told = shell.fine("remember", PORT, "--kind", "fact", "--tag", "staging,db", "-t", "ports")
    assert told.out.startswith("Remembered 0")
    assert "(fact, scope Global)" in told.out
    answer = shell.fine("recall", "which", "port", "for", "staging?")
    assert PORT in answer.out
    assert "#staging #db #ports" in answer.out
    hit = shell.fine("recall", "staging port", "--json").json["hits"][0]
    assert hit["content"] == PORT
    assert hit["tags"] == ["staging", "db", "ports"]
    assert hit["provenance"]["dialect"] == "cli"
    assert hit["why"]


def test_text_from_stdin_and_files(shell: Shell, tmp_path: Path) -> None:
    shell.fine("remember", stdin="Piped: the build takes nine minutes\n")
    shell.fine("remember", "-", "--kind", "fact", stdin=b"Dashed: the cache is cold on Mondays")
    notes = tmp_path / "notes.md"
    notes.write_text("﻿From a file: the linter runs before the tests", encoding="utf-8")
    shell.fine("remember", "--file", str(notes))
    contents = {memory["content"] for memory in shell.fine("list", "--json").json["memories"]}
    assert contents == {
        "Piped: the build takes nine minutes",
        "Dashed: the cache is cold on Mondays",
        "From a file: the linter runs before the tests",
    }


def test_unusable_text_is_refused_with_a_reason(shell: Shell, tmp_path: Path) -> None:
    binary = tmp_path / "image.bin"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    for argv, stdin in (
        (["remember", "--file", str(tmp_path / "none")], ""),
        (["remember", "--file", str(binary)], ""),
        (["remember", "a", "--file", str(binary)], ""),
        (["remember"], "   \n"),
        (["remember", "x" * 200, "-o", "intake.longest=100"], ""),
        (["remember", "-", "-o", "intake.longest=100"], "word " * 200),
        (["remember", "--batch", "text"], ""),
        (["remember", "words", "--meta", "novalue"], ""),
        (["remember", "words", "--when", "flurbsday"], ""),
    ):
        answer = shell(*argv, stdin=stdin)
        assert answer.status == 2, argv
        assert answer.err.startswith("error: "), argv
    assert shell.fine("list", "--json").json["total"] == 0


def test_a_value_out_of_range_names_the_option(shell: Shell) -> None:
    answer = shell("remember", "The sky is blue here", "--importance", "7")
    assert answer.status == 2
    assert "--importance" in answer.err
    answer = shell("recall", "sky", "--min-score", "3")
    assert (answer.status, "--min-score" in answer.err) == (2, True)


def test_duplicates_noise_and_secrets_are_told(shell: Shell) -> None:
    first = shell.remember(PORT)
    assert f"Already known as {first}" in shell.fine("remember", PORT).out
    assert "--keep" in shell.fine("remember", "ok").out
    assert shell.fine("remember", "ok", "--keep").out.startswith("Remembered")
    token = "ghp_" + "x7Kp2Qm9Zt4Rv8Wn1Yb6Dc3Fh5Jg0LsAeUoI"
    told = shell.fine("remember", f"The deploy token is {token}")
    assert "redacted" in told.out
    assert token not in shell.fine("list", "--json").out


def test_quiet_remember_prints_the_id_alone(shell: Shell) -> None:
    answer = shell.fine("-q", "remember", PORT)
    assert shell.fine("show", answer.out.strip(), "--json").json["memory"]["content"] == PORT
    assert answer.err == ""


def test_every_option_of_remember_arrives(shell: Shell) -> None:
    other = shell.remember("The gateway terminates TLS")
    known = shell.remember(
        "The gateway restarts at night",
        *["--kind", "decision", "--topic", "gateway", "--keyword", "reboot", "--importance", "0.9"],
        *["--when", "2024-03-05T10:00:00+00:00", "--anchor", "--permanent", "--source", "runbook"],
        *["--conversation", "c1", "--position", "4", "--file-ref", "ops.md", "--line", "12"],
        *["--meta", "ticket=42", "--link", other],
    )
    shown = shell.fine("show", known, "--json").json
    memory = shown["memory"]
    assert memory["kind"] == "decision"
    assert memory["topic"] == "gateway"
    assert memory["keywords"] == ["reboot"]
    assert memory["importance"] == 0.9
    assert memory["occurred"].startswith("2024-03-05T10:00:00")
    assert memory["anchor"] is True
    assert memory["tier"] == "permanent"
    assert memory["metadata"] == {"ticket": "42"}
    assert memory["provenance"] == {
        "dialect": "cli",
        "source": "runbook",
        "conversation": "c1",
        "position": 4,
        "file": "ops.md",
        "line": 12,
    }
    assert other in {linked["id"] for linked in shown["links"]}


def test_times_are_read_in_the_persons_zone(shell: Shell) -> None:
    for when, expected in (
        ("2024-03-05", "2024-03-04T23:00:00Z"),
        ("2024-03-05T10:00", "2024-03-05T09:00:00Z"),
        ("March 2023", "2023-02-28T23:00:00Z"),
        ("März 2023", "2023-02-28T23:00:00Z"),
    ):
        known = shell.remember(f"It happened around {when}, they say", "--when", when)
        assert shell.fine("show", known, "--json").json["memory"]["occurred"] == expected


def test_recall_filters(shell: Shell) -> None:
    shell.remember(
        "The parser was rewritten", "--tag", "parser", "--kind", "progress", "--when", "2024-03-05"
    )
    shell.remember(
        "The parser is slow on tables", "--kind", "error", "--when", "2024-05-01", "--topic", "speed"
    )
    both = {"The parser was rewritten", "The parser is slow on tables"}
    assert set(shell.found("parser")) == both
    assert shell.found("parser", "--tag", "parser") == ["The parser was rewritten"]
    assert shell.found("parser", "--kind", "error,gotcha") == ["The parser is slow on tables"]
    assert shell.found("parser", "--topic", "speed") == ["The parser is slow on tables"]
    assert shell.found("parser", "--when", "March 2024") == ["The parser was rewritten"]
    assert shell.found("parser", "--since", "April 2024") == ["The parser is slow on tables"]
    assert shell.found("parser", "--until", "2024-03-05") == ["The parser was rewritten"]
    assert len(shell.found("parser", "-n", "1")) == 1
    answer = shell.fine("recall", "parser", "--when", "March 2024")
    assert "2024-03-01" in answer.err
    assert "2024-03-31" in answer.err


def test_nothing_found_is_no_failure(shell: Shell) -> None:
    assert "Nothing is remembered" in shell.fine("recall", "anything at all").out
    shell.remember(PORT)
    answer = shell.fine("recall", "zebra xylophone")
    assert "Nothing found" in answer.out
    assert shell.fine("recall", "zebra xylophone", "--json").json["hits"] == []


def test_recall_with_links_neighbours_and_whole_texts(shell: Shell) -> None:
    turns = [
        shell.remember(text, "--conversation", "c", "--position", str(number))
        for number, text in enumerate(
            ["We met at the lighthouse", "The keeper told of storms", "Then we sailed"]
        )
    ]
    shell.fine("link", turns[1], turns[0], "--relation", "caused_by")
    answer = shell.fine("recall", "keeper storms", "-n", "1", "--context", "1", "--links")
    assert "before: We met at the lighthouse" in answer.out
    assert "after: Then we sailed" in answer.out
    assert "caused by: We met at the lighthouse" in answer.out
    long = "\n".join(f"line {number} of the walrus manual" for number in range(40))
    shell.remember(long)
    assert "line 39" not in shell.fine("recall", "walrus manual").out
    assert "line 39" in shell.fine("recall", "walrus manual", "--full").out


def test_forget_undo_and_hard(shell: Shell) -> None:
    known = shell.remember(PORT)
    assert "--undo" in shell.fine("forget", known).err
    assert shell.found("staging") == []
    assert known in shell.fine("list", "--status", "forgotten").out
    shell.fine("forget", known, "--undo")
    assert shell.found("staging") == [PORT]
    refused = shell("forget", known, "--hard")
    assert (refused.status, "--yes" in refused.err) == (5, True)
    gone = shell.fine("forget", known, "--hard", "--yes")
    assert "remaining" in gone.out
    assert "Nothing is left." in gone.out
    assert shell("show", known).status == 3


def test_forget_by_filter_asks_first(shell: Shell) -> None:
    for number in range(3):
        shell.remember(f"Scratch thought number {number} of the day", "--tag", "scratch")
    shell.remember(PORT)
    assert shell("forget", "--tag", "scratch").status == 5
    asked = shell("forget", "--tag", "scratch", stdin="n\n", terminal=True)
    assert asked.status == 5
    assert "3 memories" in asked.err
    answer = shell.fine("forget", "--tag", "scratch", "--yes", "--json").json
    assert answer["count"] == 3
    assert shell.fine("list", "--json").json["total"] == 1
    shell.fine("forget", "--tag", "scratch", "--undo")
    assert shell.fine("list", "--json").json["total"] == 4
    assert "nothing was forgotten" in shell.fine("forget", "--tag", "none-such", "--yes").out
    assert shell("forget").status == 2


def test_forgetting_for_good_by_filter_asks_with_what_is_hidden_too(shell: Shell) -> None:
    shell.fine("scopes", "create", "work")
    known = shell.remember("Scratch thought of the morning", "--tag", "scratch", "--scope", "work")
    shell.fine("forget", known)
    refused = shell("forget", "--tag", "scratch", "--hard")
    assert (refused.status, "1 memory" in refused.err) == (5, True)
    shell.remember("Scratch thought of the evening", "--tag", "scratch")
    asked = shell("forget", "--tag", "scratch", "--hard", stdin="n\n", terminal=True)
    assert (asked.status, "2 memories" in asked.err) == (5, True)
    assert shell.fine("show", known).status == 0
    assert shell("forget", "--tag", "none-such", "--hard").status == 5
    assert shell.fine("forget", "--tag", "scratch", "--hard", "--yes", "--json").json["count"] == 2


def test_anchors_are_kept_unless_forced(shell: Shell) -> None:
    known = shell.remember(PORT, "--anchor")
    refused = shell("forget", known)
    assert refused.status == 5
    assert "--force" in refused.err
    shell.fine("amend", known, "--tag", "ports")
    shell.remember("The harbour has nine cranes", "--tag", "ports")
    assert "1 memory kept for good" in shell.fine("forget", "--tag", "ports", "--yes").err
    assert shell.fine("forget", known, "--force").status == 0


def test_amend_keeps_what_was_said(shell: Shell) -> None:
    known = shell.remember(PORT, "--tag", "staging")
    shell.fine(
        "amend", known[:20], "--content", "The staging database listens on port 5434", "--importance", "0.8"
    )
    shell.fine("amend", known, "--content", "-", "--no-tags", stdin="The staging database moved to port 5435")
    shown = shell.fine("show", known, "--json").json
    assert shown["memory"]["content"] == "The staging database moved to port 5435"
    assert shown["memory"]["importance"] == 0.8
    assert shown["memory"]["tags"] == []
    assert {version["content"] for version in shown["versions"]} == {
        PORT,
        "The staging database listens on port 5434",
    }
    assert "Earlier versions" in shell.fine("show", known).out
    assert shell("amend", known, "--tag", "a", "--no-tags").status == 2


def test_link_and_unlink(shell: Shell) -> None:
    one, two = shell.remember("The disk filled up overnight"), shell.remember("Log rotation was switched off")
    assert "caused_by" in shell.fine("link", one, two, "--relation", "caused_by").out
    assert shell.fine("link", one, two, "-r", "caused_by", "--json").json["created"] is False
    assert "caused_by" in shell.fine("show", one).out
    assert "Removed 1 link." in shell.fine("link", one, two, "--relation", "caused_by", "--remove").out
    assert shell("link", one, "zzzz").status == 3


def test_lists_tags_and_timeline(shell: Shell) -> None:
    for day in range(1, 6):
        shell.remember(f"Day {day} of the voyage went well", "--when", f"2024-03-0{day}", "--tag", "voyage")
    page = shell.fine("list", "-n", "2", "--order", "oldest", "--json").json
    assert (page["total"], len(page["memories"])) == (5, 2)
    following = shell.fine("list", "-n", "2", "--order", "oldest", "--after", page["next"], "--json").json
    assert [memory["content"][:5] for memory in following["memories"]] == ["Day 3", "Day 4"]
    assert "--after" in shell.fine("list", "-n", "2").err
    assert "voyage  5" in shell.fine("tags").out
    assert "status" not in shell.fine("list").out
    shell.fine("forget", page["memories"][0]["id"])
    both = shell.fine("list", "--status", "active,forgotten").out.splitlines()
    assert {line.split()[2] for line in both} == {"status", "active", "forgotten"}
    shown = shell.fine("show", page["memories"][1]["id"]).out
    assert {"utility", "verified", "tier", "uses"} <= {line.split(" ")[0] for line in shown.splitlines()}
    shell.fine("forget", page["memories"][0]["id"], "--undo")
    days = shell.fine("timeline", "March", "2024", "--json").json["days"]
    assert [day["date"] for day in days] == [f"2024-03-0{day}" for day in range(1, 6)]
    assert "2024-03-05  1 memory" in shell.fine("timeline", "--when", "2024-03-05").out
    assert "Nothing" in shell.fine("timeline", "1999").out


def test_a_batch_answers_for_each_line(shell: Shell) -> None:
    lines = [
        json.dumps("A string about ducks on the pond"),
        json.dumps({"content": "Geese fly south in autumn", "kind": "fact", "tags": ["birds"]}),
        "",
        "not json",
        json.dumps({"content": "x", "importance": 7}),
        json.dumps({"content": "Swans stay here", "linked_to": ["nosuchid"]}),
        json.dumps({"content": "Herons hunt at dawn", "unknown": 1}),
        json.dumps(["a list"]),
        json.dumps("Geese fly south in autumn"),
    ]
    answer = shell("remember", "--batch", "--topic", "birds", "--json", stdin="\n".join(lines))
    assert answer.status == 1
    outcomes = {line["line"]: line["outcome"] for line in answer.json["lines"]}
    assert outcomes == {
        1: "stored",
        2: "stored",
        4: "failed",
        5: "failed",
        6: "failed",
        7: "failed",
        8: "failed",
        9: "duplicate",
    }
    told = {line["line"]: line["error"] for line in answer.json["lines"] if line["error"]}
    assert "importance" in told[5]
    assert "unknown" in told[7]
    assert len(shell.fine("list", "--topic", "birds", "--json").json["memories"]) == 2
    plain = shell("remember", "--batch", stdin="\n".join(lines))
    assert "already known" in plain.out
    assert "line 4" in plain.err


def test_a_batch_tells_what_it_replaced(shell: Shell) -> None:
    known = shell.remember("We deploy the shop with Kubernetes")
    told = shell.fine("remember", "--batch", stdin='"We no longer deploy the shop with Kubernetes"').out
    assert "The place of 1 earlier memory was taken:" in told
    assert f"takes the place of {known}" in told


def test_what_a_new_memory_is_to_others_is_said_from_its_side(shell: Shell) -> None:
    error = shell.remember("The Redis queue fails with ECONNREFUSED at start", "--kind", "error")
    told = shell.fine(
        *("remember", "The ECONNREFUSED at start of the Redis queue is resolved by starting Redis first"),
        *("--kind", "procedure"),
    ).out
    assert f"linked: resolves {error}" in told


@pytest.mark.parametrize("depth", [50, 500, 900, 5_000, 200_000])
def test_a_batch_goes_on_after_a_line_that_is_nested_too_deeply(shell: Shell, depth: int) -> None:
    nested = '{"content": "Ducks dive deep", "metadata": ' + '{"a":' * depth + "1" + "}" * depth + "}"
    answer = shell("remember", "--batch", "--json", stdin=f'{nested}\n"Geese fly south in autumn"\n')
    assert answer.status == 1
    assert [line["outcome"] for line in answer.json["lines"]] == ["failed", "stored"]


@pytest.mark.local_file
def test_what_a_batch_stored_before_the_database_failed_is_told(shell: Shell) -> None:
    shell.remember("The first of all")
    database = shell.home / "data" / "mindhold.db"
    lines = [json.dumps(f"Container {number} was loaded at berth {number * 7}") for number in range(600)]

    class Locking(io.BytesIO):
        """Another process holds the database from the 550th line on."""

        holder: sqlite3.Connection | None = None
        taken = 0

        def __next__(self) -> bytes:
            self.taken += 1
            if self.taken == 550:
                self.holder = sqlite3.connect(database, isolation_level=None)
                self.holder.execute("BEGIN IMMEDIATE")
            return super().__next__()

    for options in ([], ["--json"]):
        stdin = Locking("\n".join(lines).encode())
        answer = shell("remember", "--batch", "-o", "store.busy_timeout_ms=0", *options, stdin=stdin)
        assert stdin.holder is not None
        stdin.holder.close()
        assert answer.status == 7
        assert "not stored twice" in answer.err
        if options:
            assert answer.json["error"]["code"] == "STORE_BUSY"
            assert answer.json["counts"] == {"duplicate": 500, "unknown": 100}
        else:
            assert "Remembered 500 memories, 100 unknown." in answer.out
    assert (
        "Remembered 100 memories, 500 already known"
        in shell.fine("remember", "--batch", stdin="\n".join(lines)).out
    )


def test_a_large_batch_is_stored_whole(shell: Shell) -> None:
    lines = "\n".join(
        json.dumps(f"Container {number} was loaded at berth {number * 7}") for number in range(1203)
    )
    answer = shell.fine("remember", "--batch", stdin=lines)
    assert "Remembered 1,203 memories" in answer.out
    assert shell.fine("status", "--json").json["memories"] == 1203
