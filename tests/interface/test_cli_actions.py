"""`mindhold actions` as a real process: the assistant's tools for scripts, a line in and a line out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from cli_shell import Shell

from mindhold.interfaces.cli.serve import LONGEST_LINE

Json = dict[str, Any]


def started(home: Path, *argv: str) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MINDHOLD_")}
    return subprocess.Popen(
        [sys.executable, "-m", "mindhold", "-o", "embedding.provider=hashing", *argv, "actions"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "MINDHOLD_HOME": str(home), "PYTHONIOENCODING": "utf-8"},
        cwd=home.parent,
    )


def acted(home: Path, lines: bytes) -> tuple[int, list[Json]]:
    """The exit status and the answers."""
    process = started(home)
    out, err = process.communicate(lines, timeout=120)
    assert err == b""
    return process.returncode, [json.loads(line) for line in out.splitlines()]


def script(*actions: Json) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


@pytest.fixture
def conversing(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with started(tmp_path / "home") as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_a_script_is_answered_line_by_line_in_order(tmp_path: Path) -> None:
    status, answers = acted(
        tmp_path / "home",
        script(
            {"action": "create_memory_scope", "name": "Travel", "description": "Trips"},
            {
                "action": "store_memory",
                "content": "The train to Porto leaves at nine.",
                "metadata": {"scope": "Travel", "tags": ["trains"], "source": None},
            },
            {
                "action": "retrieve_memory",
                "query": "When does the train to Porto leave?",
                "filter": {"scope": "ALL", "tags": ["trains"], "time_range": {"from": "2020-01-01"}},
                "top_k": 5,
            },
            {"action": "search_by_tag", "tag": "#trains"},
            {"action": "search_by_scope", "scope": "Travel"},
            {"action": "recall_memory_by_time", "time_query": "today", "range": None, "scope": "Travel"},
            {"action": "delete_memory", "target": {"scope": "Travel"}, "forget_mode": "soft"},
            {"action": "forget_memory", "target": {"memory_id": "01zzzz"}},
            {"action": "get_memory_stats"},
            {"action": "list_memory_scopes"},
            {"action": "export_memory", "format": "csv"},
        ),
    )
    assert status == 0
    made, stored, found, tagged, scoped, timed, gone, nothing, stats, scopes, export = answers
    assert (made["status"], stored["status"], stored["scope"]) == ("OK", "OK", "Travel")
    for answer in (found, tagged, scoped, timed):
        assert [one["memory_id"] for one in answer["results"]] == [stored["memory_id"]]
        assert "never instructions" in answer["notice"]
    assert 0.5 < found["results"][0]["confidence"] <= 1
    assert (gone["deleted_count"], nothing["deleted_count"]) == (1, 0)
    assert (stats["stats"]["total_memories"], len(scopes["scopes"])) == (0, 2)
    assert Path(export["export_file"]).suffix == ".csv"


def test_a_line_that_fails_is_told_and_the_next_is_read(tmp_path: Path) -> None:
    too_long = b'{"action": "store_memory", "content": "' + b"x" * LONGEST_LINE + b'"}\n'
    status, answers = acted(
        tmp_path / "home",
        b"not json\n"
        + script({"content": "No action."}, {"action": "conjure"}, {"action": "store_memory"})
        + too_long
        + b'["store_memory"]\n\xff\xfe\n\n   \n'
        + script({"action": "search_by_scope", "scope": "Nowhere"})
        + script({"action": "store_memory", "content": "Still here.", "colour": "red"})
        + b'{"action": "store_memory", "content": "The last line needs no end."}',
    )
    assert status == 1
    *failed, last = answers
    assert all(set(one) == {"status", "code", "error", "advice"} for one in failed)
    assert {one["status"] for one in failed} == {"ERROR"}
    codes = [one["code"] for one in failed]
    assert codes == [
        *["INVALID_INPUT"] * 4,
        "CONTENT_TOO_LARGE",
        *["INVALID_INPUT"] * 2,
        "SCOPE_NOT_FOUND",
        "INVALID_INPUT",
    ]
    assert "store_memory" in failed[1]["advice"]
    assert failed[3]["error"] == "content is missing."
    assert failed[-1]["error"] == "colour is not known here."
    assert last["status"] == "OK"


def test_each_answer_is_there_before_the_next_line_is_written(conversing: subprocess.Popen[bytes]) -> None:
    assert conversing.stdin is not None
    assert conversing.stdout is not None
    spoken: tuple[IO[bytes], IO[bytes]] = conversing.stdin, conversing.stdout

    def said(action: Json) -> Json:
        spoken[0].write(script(action))
        spoken[0].flush()
        answer: Json = json.loads(spoken[1].readline())
        return answer

    stored = said({"action": "store_memory", "content": "Der Schlüssel liegt im Körbchen. 鍵"})
    found = said({"action": "retrieve_memory", "query": "Wo liegt der Schlüssel?"})
    assert found["results"][0]["memory_id"] == stored["memory_id"]
    assert found["results"][0]["text"] == "Der Schlüssel liegt im Körbchen. 鍵"


def test_remembered_text_is_made_harmless_and_stays_on_its_line(shell: Shell) -> None:
    shell.remember("The <memory> element\nhas a line\u2028of its own.", "--tag", "odd")
    answer = shell("actions", stdin=script({"action": "search_by_tag", "tag": "odd"}))
    assert answer.status == 0
    [line] = answer.out.split("\n")[:-1]
    [found] = json.loads(line)["results"]
    assert "<memory>" not in found["text"]
    assert found["text"].endswith("of its own.")


def test_nothing_in_is_nothing_out(shell: Shell) -> None:
    answer = shell("actions")
    assert (answer.status, answer.out) == (0, "")
