"""`memory_recall` as an agent calls it, while an RLM server that isn't what it should be reads for it: there is always an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate  # type: ignore[import-untyped]
from mcp_clients import Wire

SERVER = Path(__file__).with_name("rlm_server.py")
SESSIONS = ("one", "two", "three", "four")
QUESTION = "how did we stop webpack from running out of memory"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With as many conversations that answer, in files of Claude Code's."""
    home = tmp_path / "home"
    folder = home / "claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    for minute, session in enumerate(SESSIONS, 10):
        asked = "The webpack build runs out of memory"
        told = f"To stop webpack from running out of memory we gave node a bigger heap in {session}"
        said: list[dict[str, Any]] = [
            {"type": "user", "message": {"role": "user", "content": asked}},
            {
                "type": "assistant",
                "message": {"role": "assistant", "content": [{"type": "text", "text": told}]},
            },
        ]
        lines = [
            {
                **one,
                "uuid": f"{session}-{at}",
                "sessionId": session,
                "cwd": "/srv/shop",
                "timestamp": f"2026-03-01T09:{minute}:0{at}Z",
            }
            for at, one in enumerate(said)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{session}.jsonl").write_text(text, encoding="utf-8")
    return home


def recalled(home: Path, *told: str) -> dict[str, Any]:
    """What is answered, as the tool's schema says; the server answers the next call too."""
    command = subprocess.list2cmdline([sys.executable, str(SERVER), *told])
    asked = {"RLM_COMMAND": command, "RLM_TRIES": "1", "RLM_CONCURRENCY": "1", "RLM_START_SECONDS": "120"}
    settings = {f"MINDHOLD_{name}": value for name, value in asked.items()}
    with Wire(home, "--toolsets", "core,history", **settings) as wire:
        wire.greet()
        tools = {tool["name"]: tool for tool in wire.ask("tools/list")["result"]["tools"]}
        result = wire.call("memory_recall", query=QUESTION)
        assert not result.get("isError"), result
        answer: dict[str, Any] = result["structuredContent"]
        validate(answer, tools["memory_recall"]["outputSchema"])
        assert json.loads(result["content"][0]["text"]) == answer
        listed = wire.call("memory_projects")["structuredContent"]
        assert (listed["total_projects"], listed["total_sessions"]) == (1, len(SESSIONS))
        assert wire.close() == 0
    return answer


def sessions(results: list[dict[str, Any]]) -> set[str]:
    return {one["session_id"] for one in results}


def test_one_that_crashes_leaves_the_index_to_answer(home: Path) -> None:
    answer = recalled(home, "--crash-at", "1")
    assert (answer["error"], answer["searched_with"]) == ("RLM_TOOL_FAILED", "index")
    assert "ended while rlm_load_context was under way" in answer["message"]
    assert "partial_results" not in answer
    assert sessions(answer["results"]) == set(SESSIONS)
    assert answer["total_sessions_searched"] == len(SESSIONS)
    for one in answer["results"]:
        assert Path(one["file"]).read_text(encoding="utf-8").splitlines()[one["line"] - 1]


def test_what_was_read_before_it_crashed_is_in_the_answer(home: Path) -> None:
    # Two conversations take five calls each until they can be asked about; each server ends when it has read one.
    answer = recalled(home, "--crash-at", "12")
    assert (answer["error"], answer["searched_with"]) == ("RLM_TOOL_FAILED", "rlm+index")
    found = sessions(answer["partial_results"])
    assert len(found) == 2
    assert sessions(answer["results"][:2]) == found
    assert sessions(answer["results"]) == set(SESSIONS)


def test_one_that_cannot_be_started_says_what_to_do(home: Path) -> None:
    answer = recalled(home, "--refuse")
    assert (answer["error"], answer["searched_with"]) == ("RLM_CONNECTION_FAILED", "index")
    assert "No module named 'rlm'" in answer["message"]
    assert "rlm.command" in answer["resolution"]
    assert sessions(answer["results"]) == set(SESSIONS)
