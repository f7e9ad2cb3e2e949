"""kill -9 at every write of a capture, and run again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conversing import (
    PATIENCE,
    about,
    captured,
    environment,
    loaded,
    said,
    waiting,
    write_conversation,
)

import leaflets
from mindhold.app.application import open_app
from mindhold.capture.journal import PENDING_NAMESPACE
from mindhold.hooks import event_queue as queue
from mindhold.hooks.project_identity import project_identity
from mindhold.hooks.server import register_server
from mindhold.projects.summary_versions import SUMMARY_VERSIONS

LEAST_WRITES = 10  # or this tests little


def home_with_events(home: Path, folder: Path) -> None:
    """Two conversations wait; the second one takes something back that is known since the first."""
    folder.mkdir()
    first = write_conversation(home.parent / "claude", "first", about("Spruce", "garden"))
    replaced = said(
        "We decided to use Basalt for the garden store instead of Spruce, because Spruce is too slow.",
        "Basalt it is, then.",
        "Never commit to the main branch of the garden directly.",
        "Understood.",
    )
    second = write_conversation(home.parent / "claude", "second", replaced)
    for file, event in ((first, "Stop"), (second, "SessionEnd")):
        put_event(home, event, file, folder)


def put_event(home: Path, event: str, file: Path, folder: Path) -> None:
    told = {"event": event, "conversation": file.stem, "file": str(file), "folder": str(folder)}
    queue.put_event(str(home), told)


async def killed_at_every_write(template: Path, homes: Path, settings: Mapping[str, Any]) -> None:
    """Below `homes` each home died at another write and was taken up again; `whole` is one that nobody killed."""
    register_server(str(template), 1)  # as if a server ran, which does the upkeep
    homes.mkdir()
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(Path(__file__).with_name("capture_child.py")), str(template), str(homes)],
        env=environment(template, {"store.durability": "normal", **settings}),
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    deaths = [status for status in told["killed"] if status == signal.SIGKILL]
    assert len(deaths) >= LEAST_WRITES, told
    assert set(told["killed"]) <= {0, signal.SIGKILL}, told
    assert set(told["again"]) == {0}, told


async def test_a_capture_that_is_killed_at_any_write_is_made_good(tmp_path: Path) -> None:
    template, homes, folder = tmp_path / "template", tmp_path / "homes", tmp_path / "garden"
    home_with_events(template, folder)
    await killed_at_every_write(template, homes, {})

    expected = await captured(homes / "whole")
    contents = [content for *_, content in expected]
    assert sum("Spruce" in content for content in contents) >= 2
    assert any("Basalt" in content for content in contents)
    assert len(set(contents)) == len(contents)
    for home in homes.iterdir():
        assert await captured(home) == expected, home.name
        assert waiting(home) == [], home.name
        sheet = leaflets.read(str(home), project_identity(str(folder)))
        assert sheet is not None
        active = {content for _, _, status, content in expected if status == "active"}
        assert {memory["text"] for memory in sheet["memories"]} == active, home.name
        async with open_app(loaded(home)) as app:
            assert await app.engine.store.entries(PENDING_NAMESPACE, now=app.engine.clock()) == [], home.name


async def test_a_log_that_is_fed_is_made_good_too(tmp_path: Path) -> None:
    template, homes, folder = tmp_path / "template", tmp_path / "homes", tmp_path / "garden"
    folder.mkdir()
    talk = [
        {**line, "timestamp": f"2026-03-01T10:00:0{number}Z"}
        for number, line in enumerate(about("Spruce", "garden"))
    ]
    file = write_conversation(tmp_path / "claude", "first", talk)
    put_event(template, "SessionEnd", file, folder)
    await killed_at_every_write(template, homes, {"capture.project_log": True})

    expected = await captured(homes / "whole")
    said = [content for _, kind, _, content in expected if kind == "episode"]
    assert sorted(said) == sorted(told_in(talk))
    [summary] = [content for _, kind, _, content in expected if kind == "context"]
    assert all(content in summary for _, kind, _, content in expected if kind in ("decision", "preference"))
    for home in homes.iterdir():
        assert await captured(home) == expected, home.name
        assert waiting(home) == [], home.name
        async with open_app(loaded(home)) as app:
            listed = await app.run(SUMMARY_VERSIONS, SUMMARY_VERSIONS.takes(project="garden"))
            assert listed.count == 1, home.name


def told_in(talk: Sequence[Mapping[str, Any]]) -> list[str]:
    contents = [line["message"]["content"] for line in talk]
    return [content if isinstance(content, str) else content[0]["text"] for content in contents]
