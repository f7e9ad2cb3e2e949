"""`mindhold capture`, and what `status` and `ask` make of it: through the shell, on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_shell import Shell

from mindhold.hooks import event_queue

SAID = (
    "Let's use PostgreSQL instead of MySQL for the orders, because we need JSON columns.",
    "From now on always indent with tabs, never with spaces.",
)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A conversation that was held in a project's folder in March."""
    folder = tmp_path / "shop"
    folder.mkdir()
    file = tmp_path / "one.jsonl"
    entries = [
        {
            "type": "user",
            "uuid": str(number),
            "sessionId": "one",
            "cwd": str(folder),
            "timestamp": f"2026-03-01T10:0{number}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(SAID)
    ]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def test_a_conversation_is_captured_once_and_cited(shell: Shell, transcript: Path) -> None:
    told = shell.fine("capture", str(transcript)).out
    assert told == "one.jsonl: 2 memories for shop, of 2 lines, by rules\n"
    assert shell.fine("capture", str(transcript)).out == "one.jsonl: nothing new\n"
    kept = shell.fine("list", "--scope", "shop", "--json").json["memories"]
    assert {memory["kind"] for memory in kept} == {"decision", "preference"}
    assert {(memory["provenance"]["file"], memory["provenance"]["conversation"]) for memory in kept} == {
        (str(transcript), "one")
    }
    assert sorted(memory["provenance"]["line"] for memory in kept) == [1, 2]
    assert {memory["occurred"][:10] for memory in kept} == {"2026-03-01"}, (
        "when it was said, not when it was read"
    )


def test_status_says_what_was_captured_and_what_waits(shell: Shell, transcript: Path) -> None:
    assert "capture" not in shell.fine("status").out, "nothing is said of what nobody uses"
    shell.fine("capture", str(transcript))
    event_queue.put_event(str(shell.home), {"event": "Stop"})
    told = shell.fine("status")
    assert "by rules; 1 event to be worked off" in told.out
    assert "shop: 2 memories captured, last 20" in told.out
    found = shell.fine("status", "--json").json["capture"]
    assert (found["enabled"], found["extract_with"], found["waiting"], found["given_up"]) == (
        True,
        "rules",
        1,
        0,
    )
    [project] = found["projects"]
    assert (project["project"], project["stored"], project["captures"], project["rung"]) == (
        "shop",
        2,
        1,
        "rules",
    )
    event_queue.reject_event(event_queue.all_events(str(shell.home))[0][0])
    assert "failed too often" in shell.fine("status").err


def test_what_was_captured_answers_with_its_source(shell: Shell, transcript: Path) -> None:
    shell.fine("capture", str(transcript))
    told = shell.fine("ask", "why PostgreSQL for the orders?", "--scope", "shop")
    first, *sources = told.out.splitlines()
    assert first.startswith("Let's use PostgreSQL instead of MySQL")
    assert first.endswith("[1]")
    assert any(line.startswith("[1] ") and " · decision · " in line for line in sources)
