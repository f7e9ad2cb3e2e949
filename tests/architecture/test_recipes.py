"""Follows the recipes of docs/ARCHITECTURE.md in a copy of the source: what they add works through the interfaces."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(folder: Path, *argv: str, given: str | None = None) -> str:
    """What the copy's program prints."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "MINDHOLD_HOME": str(folder / "home"),
        "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
    }
    done = subprocess.run(
        [sys.executable, *argv], env=environ, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SERVED = """
import asyncio, json, sys
from mindhold.app.application import open_app
from mindhold.contracts.mcp.tools import tools_of
from mindhold.contracts.rest.resource import by_name
from mindhold.settings.loader import load_settings

async def main():
    async with open_app(load_settings()) as app:
        tool = next(tool for tool in tools_of(["capture"]) if tool.name == "memory_words")
        request = tool.request({})
        answer = tool.answer(await app.run(request.operation, request.given))
        print(json.dumps([answer, by_name()["count_words"].path]))

asyncio.run(main())
"""


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
    exported = run(copy, "-m", "mindhold", "export", "-")
    assert '"mood": "calm"' in exported or '"mood":"calm"' in exported


def test_a_tool_added_by_the_recipe_works_in_the_shell_over_mcp_and_in_rest(copy: Path) -> None:
    steps = recipe("To add a tool with a new ability")
    files = {step["new"] or step["file"] for step in steps}
    assert len(files) <= 6
    follow(steps, copy)
    run(copy, str(copy / "tools" / "operation_index.py"))
    run(copy, "-m", "mindhold", "remember", "We deploy every Friday", "-q")
    assert run(copy, "-m", "mindhold", "count-words").strip() == "4"
    answer, path = json.loads(run(copy, "-c", SERVED))
    assert answer["words"] == 4
    assert path == "/api/memories/words"
