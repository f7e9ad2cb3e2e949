"""A whole conversation by hooks, then what the REST API says of it: messages, counts and the summary, in each store."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import command, surroundings
from rest_api import Api, served

from support.mongo_server import MongoServer
from support.postgres_server import PostgresServer

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
ANSWER = "Understood, the order database is PostgreSQL 16 from now on."
SESSION = "5d0c7a52-1111-4222-8333-444455556666"
PATIENCE = 90.0  # seconds for a worker to end


@pytest.fixture(scope="module")
def settings(postgres_server: PostgresServer, mongo_server: MongoServer) -> Iterator[dict[str, str]]:
    url = postgres_server.create_database("rest_project_log", template="with_vectors")
    yield {
        "MINDHOLD_STORE_MODE": "local",
        "MINDHOLD_POSTGRES_URL": url,
        "MINDHOLD_MONGODB_MODE": "external",
        "MINDHOLD_MONGODB_URI": mongo_server.url,
        "MINDHOLD_MONGODB_DATABASE": "rest_project_log",
    }
    postgres_server.drop_database("rest_project_log")
    mongo_server.command({"dropDatabase": 1}, database="rest_project_log")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("log") / "home", **settings) as api:
        yield api


def transcript(folder: Path, session: str) -> Path:
    """What Claude Code writes of a conversation with a tool call."""
    use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "orders.py"}
    said: list[tuple[str, Any]] = [
        ("user", DECIDED),
        ("assistant", [{"type": "text", "text": "Let me look."}]),
        ("assistant", [use]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": ANSWER}]),
    ]
    file = folder / "transcripts" / f"{session}.jsonl"
    file.parent.mkdir()
    lines = [
        {
            "type": role,
            "message": {"role": role, "content": content},
            "sessionId": session,
            "uuid": f"{session}-{number}",
            "cwd": str(folder),
            "timestamp": f"2026-03-02T10:00:0{number}.000Z",
        }
        for number, (role, content) in enumerate(said)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def end(home: Path, file: Path, folder: Path, settings: dict[str, str]) -> None:
    """The conversation ends: its hook is called, and the worker that it starts does its work."""
    told = {
        "session_id": file.stem,
        "transcript_path": str(file),
        "cwd": str(folder),
        "hook_event_name": "SessionEnd",
        "reason": "prompt_input_exit",
    }
    hook = subprocess.run(
        command("hook", "SessionEnd"),
        env=surroundings(home, **settings),
        input=json.dumps(told).encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert hook.stdout == b""
    limit = time.monotonic() + PATIENCE
    while list((home / "hooks" / "waiting").glob("*.json")):
        assert time.monotonic() < limit, "the worker doesn't end"
        time.sleep(0.05)


@pytest.mark.parametrize("mode", ["local", "postgres", "mongodb"])
def test_a_conversation_by_hooks_is_in_the_log_and_the_summary(
    api: Api, settings: dict[str, str], tmp_path: Path, mode: str
) -> None:
    project, session = f"shop in {mode}", f"{mode}-{SESSION}"
    made = api.get("create_project", {"name": project, "storage_mode": mode, "path": str(tmp_path)})
    assert made["settings"]["log_conversations"] is True
    end(api.home, transcript(tmp_path, session), tmp_path, settings)

    recent = api.get("recent_messages", query={"session_id": session}, project_id=project)
    assert [(one["message_type"], one["content"]) for one in recent["messages"]] == [
        ("user", DECIDED),
        ("assistant", ANSWER),
    ]
    assert recent["storage_backend"] == mode
    stats = api.get("project_stats", project_id=project)
    assert (stats["total_messages"], stats["unindexed_messages"]) == (2, 0)
    summary = api.get("project_summary", project_id=project)
    assert (summary["version"], summary["key_decisions"]) == (1, [DECIDED])
    assert summary["storage_backend"] == mode

    forgetting = subprocess.run(
        command("history", "forget", session, "--yes", "--json"),
        env=surroundings(api.home, **settings),
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    told = json.loads(forgetting.stdout)
    assert told["summaries"] == [{"project": project, "rewritten": [], "dropped": [1]}]
    assert told["receipt"]["empty"]
    assert api.get("project_stats", project_id=project)["total_messages"] == 0
    assert api.get("project_summary", project_id=project)["version"] == 0


def test_a_project_that_wants_none_has_none(api: Api, settings: dict[str, str], tmp_path: Path) -> None:
    api.get("create_project", {"name": "quiet", "path": str(tmp_path), "log_conversations": False})
    end(api.home, transcript(tmp_path, f"quiet-{SESSION}"), tmp_path, settings)
    assert api.get("recent_messages", project_id="quiet")["count"] == 0
    assert api.get("project_summary", project_id="quiet")["version"] == 0
    assert api.get("show_project", project_id="quiet")["memories"] == 1
    wanted = api.get("change_project", {"log_conversations": True}, project_id="quiet")
    assert wanted["settings"]["log_conversations"] is True
