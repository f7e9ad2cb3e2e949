"""docs/REST.md is true: every command in it is run, in order, and answered as it says."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import WAIT, HttpServer

GUIDE = Path(__file__).parents[2] / "docs" / "REST.md"
BASE = "http://127.0.0.1:3333"
KEY = "a-long-access-key-of-the-guide"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATUS = re.compile(r"\s+# (\d{3})$")
LEARNT = {"message_id": "MESSAGE_ID", "job_id": "JOB_ID", "id": "ID", "next": "NEXT"}  # from answers
SLOW = 28  # curl's word for --max-time


@dataclass(slots=True)
class Reader:
    """Somebody who follows the guide from its first line to its last."""

    open: str  # the address of a server without a key, and of one with
    guarded: str
    folder: Path
    learnt: dict[str, str] = field(default_factory=dict)
    answer: str = ""

    def follow(self, kind: str, text: str) -> None:
        if kind == "bash":
            for command in commands(text):
                self.run(command)
        elif kind == "ndjson":
            (self.folder / "messages.ndjson").write_text(text, encoding="utf-8")
        elif kind == "json":
            assert_shown(json.loads(text), json.loads(self.answer), at="")
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(text.replace(BASE, self.open), {})

    def run(self, command: str) -> None:
        said = STATUS.search(command)
        assert said is not None, f"no status is told: {command}"
        wanted = STATUS.sub("", command)
        for word, value in self.learnt.items():
            wanted = re.sub(rf"\b{word}\b", lambda _: value, wanted)  # noqa: B023
        where = self.guarded if "$MINDHOLD_ACCESS_KEY" in wanted else self.open
        wanted = wanted.replace("$MINDHOLD_ACCESS_KEY", KEY).replace(BASE, where)
        heads = self.folder / "heads.txt"
        ran = subprocess.run(
            [*shlex.split(wanted), "-sS", "-D", str(heads), "-w", "\n%{http_code}"],
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT,
            check=False,
        )
        assert ran.returncode in (0, SLOW) if "--max-time" in wanted else ran.returncode == 0, ran.stderr
        body, _, status = ran.stdout.rpartition("\n")
        assert status == said[1], f"{wanted}\n{body}"
        self.answer = body
        self.learn(body, heads.read_text(encoding="utf-8"))

    def learn(self, body: str, heads: str) -> None:
        with contextlib.suppress(ValueError):
            told = json.loads(body)
            if isinstance(told, dict):
                self.learnt |= {
                    word: str(told[name]) for name, word in LEARNT.items() if told.get(name) is not None
                }
        for line in heads.splitlines():
            if line.lower().startswith("etag:"):
                self.learnt["ETAG"] = line.partition(":")[2].strip()


def commands(text: str) -> Iterator[str]:
    """Each with its continued lines and its quoted ones."""
    held = ""
    for line in text.splitlines():
        held += f"{line}\n"
        if held.strip() and STATUS.search(line):
            yield held.strip().replace("\\\n", " ")
            held = ""
    assert not held.strip(), f"no status is told: {held}"


def assert_shown(shown: Any, told: Any, *, at: str) -> None:
    """What the guide shows is there, and of the same kind."""
    if isinstance(shown, dict):
        assert isinstance(told, dict), at
        for name, value in shown.items():
            assert name in told, f"{at}.{name}"
            assert_shown(value, told[name], at=f"{at}.{name}")
    elif isinstance(shown, list):
        assert isinstance(told, list), at
        assert len(told) >= len(shown), at
        for number, value in enumerate(shown):
            assert_shown(value, told[number], at=f"{at}[{number}]")
    elif told is not None:
        assert isinstance(told, type(shown)) or {type(told), type(shown)} <= {int, float}, at
    if at.endswith((".code", ".error")):
        assert shown == told


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    folder = tmp_path / "guide"
    folder.mkdir()
    with (
        HttpServer(tmp_path / "open" / "home") as server,
        HttpServer(tmp_path / "guarded" / "home", MINDHOLD_ACCESS_KEY=KEY) as guarded,
    ):
        yield Reader(server.url, guarded.url, folder)


def test_the_guide_is_true(reader: Reader) -> None:
    blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    assert sum(text.count("curl ") for kind, text in blocks if kind == "bash") >= 40
    for kind, text in blocks:
        reader.follow(kind, text)
