"""Which programs' conversations an engine has: those that the settings name, indexed and found like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mindhold.app.application import App
from mindhold.history.index import IndexHistoryInput, index_history
from mindhold.history.search import SearchHistoryInput, search_history
from mindhold.ports.transcripts import TranscriptCursor

Open = Callable[..., AbstractAsyncContextManager[App]]
SESSION = "01999f2a-7c31-7d10-8a11-52b6a5f0c001"


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in entries)


@pytest.fixture
def desks(home: Path) -> dict[str, Path]:
    """One conversation of each program."""
    desk = home.parent
    when = "2026-03-02T10:00:00.000Z"
    typed = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "The codexword fails"}],
    }
    files = {
        desk / "claude" / "projects" / "-code" / f"{SESSION}.jsonl": lines(
            {
                "type": "user",
                "message": {"role": "user", "content": "The claudeword fails"},
                "timestamp": when,
            }
        ),
        desk / "codex" / "sessions" / f"rollout-{SESSION}.jsonl": lines(
            {"timestamp": when, "type": "session_meta", "payload": {"id": "c", "cwd": "/code/shop"}},
            {"timestamp": when, "type": "response_item", "payload": typed},
        ),
        desk / "gemini" / "tmp" / "shop" / "chats" / "session-a.jsonl": lines(
            {"sessionId": "g", "projectHash": "0"},
            {"id": "u", "timestamp": when, "type": "user", "content": "The geminiword fails"},
        ),
        desk / "exports" / "chat.md": "# A chat\n\n---\n\n**User**\n\nThe cursorword fails\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return {path.relative_to(desk).parts[0]: path for path in files}


async def test_every_program_is_indexed_and_found(opened: Open, desks: dict[str, Path], home: Path) -> None:
    async with opened(**{"history.cursor_dir": str(home.parent / "exports")}) as app:
        indexed = await index_history(app.engine, IndexHistoryInput(workers=0))
        assert (indexed.conversations, indexed.warnings) == (4, [])
        for program, path in desks.items():
            word = f"{program if program != 'exports' else 'cursor'}word"
            (found,) = (
                await search_history(app.engine, SearchHistoryInput(query=word), agent="owner")
            ).results
            assert found.file == str(path)
            assert word in found.excerpt


@pytest.mark.parametrize(
    ("agents", "named"),
    [
        ("codex", {"codex"}),
        ("claude,gemini", {"claude", "gemini"}),
        ("claude, codex , gemini,cursor", {"claude", "codex", "gemini"}),
    ],
)
async def test_only_those_that_are_named_are_read(
    opened: Open, desks: dict[str, Path], agents: str, named: set[str]
) -> None:
    async with opened(**{"history.agents": agents}) as app:
        assert {file.source for file in app.engine.transcripts.files()} == named
        followed = app.engine.transcripts.follow(desks["claude"], TranscriptCursor(), most_bytes=1 << 20)
        assert followed is not None  # hooks tell of Claude Code's files in any case
        assert [step.text for step in followed.steps] == ["The claudeword fails"]
