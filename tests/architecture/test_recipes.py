"""Follows the recipes of docs/ARCHITECTURE.md in a copy of the source: what they add works through the interfaces."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
_STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|In `(?P<file>[^`]+)`, (?P<where>after|before) `(?P<anchor>[^\n]+)`):\n"
    r"```\w+\n(?P<text>.*?)```$",
    re.DOTALL | re.MULTILINE,
)


def recipe(title: str) -> list[re.Match[str]]:
    [section] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
    return list(_STEP.finditer(section))


def follow(steps: list[re.Match[str]], folder: Path) -> None:
    for step in steps:
        if step["new"]:
            (folder / step["new"]).write_text(step["text"], encoding="utf-8")
            continue
        path, anchor = folder / step["file"], step["anchor"].replace("\\n", "\n")
        before = path.read_text(encoding="utf-8")
        assert before.count(anchor) == 1, f"{step['file']} has {before.count(anchor)} times {anchor!r}"
        text = f"{anchor}\n{step['text'].rstrip()}" if step["where"] == "after" else f"{step['text']}{anchor}"
        path.write_text(before.replace(anchor, text), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "MINDHOLD_HOME": str(folder / "home"),
        "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
    }


def run(folder: Path, *argv: str) -> str:
    """What the copy's program prints."""
    done = subprocess.run(
        [sys.executable, *argv], env=environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the copy's server."""
    server = subprocess.Popen(
        [sys.executable, "-m", "mindhold", "serve", "--port", "0", "--toolsets", "capture"],
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        yield next(match[0] for line in lines if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
    finally:
        server.terminate()
        server.communicate(timeout=30)


async def call_tool(address: str, name: str) -> dict[str, Any]:
    """What the tool answers over MCP."""
    async with (
        streamable_http_client(f"{address}/mcp") as (read, write),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        answer = await client.call_tool(name, {})
    assert not answer.is_error
    assert answer.structured_content is not None
    return answer.structured_content


def test_a_field_added_by_the_recipe_is_stored_and_shown(copy: Path) -> None:
    steps = recipe("To add a field to a memory")
    files = {step["new"] or step["file"] for step in steps}
    assert len(files) <= 9
    follow(steps, copy)
    told = run(copy, "-m", "mindhold", "remember", "We deploy every Friday", "--mood", "calm", "--json")
    stored = json.loads(told)
    assert stored["memory"]["mood"] == "calm"
    shown = json.loads(run(copy, "-m", "mindhold", "show", stored["id"], "--json"))
    assert shown["memory"]["mood"] == "calm"
    with served(copy) as address:
        assert httpx2.get(f"{address}/api/memories/{stored['id']}").json()["memory"]["mood"] == "calm"
    exported = run(copy, "-m", "mindhold", "export", "-")
    assert '"mood": "calm"' in exported or '"mood":"calm"' in exported


def test_a_tool_added_by_the_recipe_works_in_the_shell_over_mcp_and_rest(copy: Path) -> None:
    steps = recipe("To add a tool with a new ability")
    files = {step["new"] or step["file"] for step in steps}
    assert len(files) <= 6
    follow(steps, copy)
    run(copy, str(copy / "tools" / "operation_index.py"))
    run(copy, "-m", "mindhold", "remember", "We deploy every Friday", "-q")
    assert run(copy, "-m", "mindhold", "count-words").strip() == "4"
    with served(copy) as address:
        assert asyncio.run(call_tool(address, "memory_words"))["words"] == 4
        assert httpx2.get(f"{address}/api/memories/words").json()["words"] == 4
