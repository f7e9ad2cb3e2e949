"""The protocol without sessions over stdio, as Claude Code speaks it: one process is one conversation all the same."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import STATELESS, WAIT, Json, Wire

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def asked(wire: Wire, tool: str, **arguments: Any) -> Json:
    answer = wire.ask("tools/call", name=tool, arguments=arguments, _meta=ENVELOPE)
    told: Json = answer["result"]["structuredContent"]
    return told


def test_it_is_one_conversation_with_working_memory(tmp_path: Path) -> None:
    with Wire(tmp_path / "home") as wire:
        assert "2026-07-28" in json.dumps(wire.ask("server/discover", _meta=ENVELOPE))
        asked(
            wire,
            "remember",
            content="The kiln is at 900 degrees.",
            topic="kiln",
            type="fact",
            scope="session",
        )
        assert [one["topic"] for one in asked(wire, "context")["workingMemory"]] == ["kiln"]
        assert wire.close() == 0
    with Wire(tmp_path / "home") as wire:
        assert asked(wire, "recall", text="kiln")["count"] == 0, "working memory ended with its conversation"


@pytest.mark.parametrize("ended_by", ["closing", "signals"])
def test_its_end_is_told_to_the_engine(tmp_path: Path, ended_by: str) -> None:
    with Wire(tmp_path / "home", "--toolsets", "all") as wire:
        for content in ("The kiln is at 900 degrees.", "Glazes are kept in the cellar."):
            asked(wire, "remember", content=content, topic="kiln", type="fact")
        if ended_by == "signals":
            wire.process.send_signal(signal.SIGINT)
            wire.process.send_signal(signal.SIGTERM)
            assert wire.process.wait(WAIT) == 0
        else:
            assert wire.close() == 0
    with Wire(tmp_path / "home", "--toolsets", "all") as wire:
        assert asked(wire, "memory_stats")["byType"]["episode"] == 1
