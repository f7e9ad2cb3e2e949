"""`mindhold consolidate`, as a person and as a program read it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from cli_shell import Shell

LONG_AGO = 400 * 86_400 * 1_000_000


def age(shell: Shell) -> None:
    """Everything was stored, and found good, four hundred days ago."""
    moments = "created = created - ?1, updated = updated - ?1, occurred = occurred - ?1, review = review - ?1"
    moments += ", verified = created - ?1"
    with closing(sqlite3.connect(shell.home / "data" / "mindhold.db")) as connection, connection:
        connection.execute(f"UPDATE memory SET {moments}", (LONG_AGO,))


def test_nothing_yet(shell: Shell) -> None:
    assert "Nothing was consolidated yet." in shell.fine("consolidate", "--reports").out


@pytest.mark.local_file
def test_a_run_is_told_and_kept(shell: Shell) -> None:
    one = shell.remember("The harbour has nine cranes", "--kind", "fact")
    kept = shell.remember("The captain prefers tea", "--kind", "preference")
    age(shell)
    dry = shell.fine("consolidate", "--dry-run")
    assert "would change" in dry.out
    [told] = [line for line in dry.out.splitlines() if one in line and "archived" in line]
    assert told.startswith(f"would be archived {one}  unused for 400 days")
    assert told.endswith(": The harbour has nine cranes")
    assert "Nothing was changed." in dry.err
    assert len(shell.fine("list", "--json").json["memories"]) == 2
    done = shell.fine("consolidate")
    assert [line.split()[0] for line in done.out.splitlines()[1:12]] == [
        *("tiers", "decay", "expiry", "duplicates", "embeddings", "utility"),
        *("anchors", "contradictions", "pending", "feedback", "index"),
    ]
    assert kept not in done.out
    reports = shell.fine("consolidate", "--reports").out
    assert "expiry: 1 archived" in reports
    assert f"\narchived {one}  unused" in reports
    told = shell.fine("consolidate", "--reports", "--json").json["reports"]
    assert [gone["id"] for gone in told[0]["archived"]] == [one]
    assert shell.found("harbour cranes") == []
    shell.fine("forget", one, "--undo")
    assert shell.found("harbour cranes") == ["The harbour has nine cranes"]


def test_single_stages_and_json(shell: Shell) -> None:
    shell.remember("The harbour has nine cranes", "--kind", "fact")
    answer = shell.fine("consolidate", "--stage", "utility,tiers", "--json").json
    assert [stage["stage"] for stage in answer["stages"]] == ["tiers", "utility"]
    assert answer["operations"] == ["utility: 1 worked out anew"]
    assert set(answer["stages"][0]) == {"stage", "changed", "detail", "seconds", "more", "looked", "counts"}
    assert {"archived", "erased", "stale", "dry_run", "seconds", "counts"} <= set(answer)


def test_what_would_be_contradicted_is_named_and_jobs_are_told_in_words(shell: Shell) -> None:
    old = shell.remember("The request timeout of the billing gateway is 30 seconds.")
    new = shell.remember("The request timeout of the billing gateway is 60 seconds.")
    dry = shell.fine("consolidate", "--stage", "contradictions", "--dry-run").out
    assert f"would be contradicted {old}  by {new}: The request timeout of the billing gateway is 30" in dry
    [jobs] = [line for line in shell.fine("consolidate").out.splitlines() if line.startswith("jobs ")]
    assert jobs.endswith("ran and found nothing to do")


def test_what_makes_no_sense_is_refused(shell: Shell) -> None:
    assert shell("consolidate", "--stage", "cooking").status == 2
    assert shell("consolidate", "--reports", "--dry-run").status == 2
    assert shell("consolidate", "--limit", "3").status == 2
    assert shell("consolidate", "--seconds", "0").status == 2
