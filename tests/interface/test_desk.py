"""A server that runs answers the hooks of its home: real processes on both sides."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import WAIT, HttpServer, Wire, surroundings
from patient_hook import patient_hook

import leaflets
from mindhold.app.application import open_app
from mindhold.capture.hook_cache import MAKE_HOOK_CACHE
from mindhold.hooks import server
from mindhold.settings.loader import LoadedSettings

HUNG_UP = (errno.EPIPE, errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN)  # on who still spoke
ORDERS = "Orders are kept in the PostgreSQL database since March."
ASKED = "Which database are the orders kept in, PostgreSQL?"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One in which a hook has run before."""
    made = tmp_path / "home"
    (made / "hooks").mkdir(parents=True, mode=0o700)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = tmp_path / "a shop"
    made.mkdir()
    return str(made)


def until(found: Callable[[], Any]) -> Any:
    """What is found in the end, within reason."""
    limit = time.monotonic() + WAIT
    while time.monotonic() < limit:
        if answer := found():
            return answer
        time.sleep(0.02)
    raise AssertionError("not within reason")


def asked(home: Path, folder: str, text: str = ASKED) -> Any:
    question = {"ask": "prompt", "text": text, "cwd": folder}
    answer = server.ask_server(str(home), question, 10.0)
    return None if answer is None else [memory["text"] for memory in answer["memories"]]


def note_of(home: Path) -> Path | None:
    return next(iter((home / "hooks" / "desks").glob("*.json")), None)


def prompted(home: Path, folder: str, prompt: str) -> str:
    """What a real hook prints."""
    given = {
        "session_id": "c1",
        "transcript_path": "",
        "cwd": folder,
        "hook_event_name": "UserPromptSubmit",
        "prompt": prompt,
    }
    ran = subprocess.run(
        [*patient_hook(), "hook", "UserPromptSubmit"],
        input=json.dumps(given),
        env=surroundings(home),
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=True,
    )
    return ran.stdout


def test_a_hook_is_answered_by_the_server_that_runs(home: Path, folder: str) -> None:
    with Wire(home) as wire:
        wire.greet()
        wire.call("remember", content=ORDERS, topic="orders", type="decision")
        assert until(lambda: asked(home, folder)) == [ORDERS]
        assert asked(home, folder, "Please write a haiku about penguins.") == []
        answer = json.loads(prompted(home, folder, ASKED))["hookSpecificOutput"]["additionalContext"]
        assert ORDERS in answer
        assert prompted(home, folder, ASKED) == "", "a conversation is told nothing twice"
        assert wire.close() == 0
    assert note_of(home) is None
    assert asked(home, folder) is None


async def test_a_server_keeps_what_hooks_read_fresh(home: Path, load: Callable[..., LoadedSettings]) -> None:
    async with open_app(load()) as app:
        await app.run(MAKE_HOOK_CACHE, MAKE_HOOK_CACHE.takes(folders=[str(home)]))

    def texts() -> list[str]:
        sheet = leaflets.read(str(home), "")
        assert sheet is not None
        return [memory["text"] for memory in sheet["memories"]]

    assert texts() == []
    with Wire(home) as wire:
        wire.greet()
        wire.call("remember", content=ORDERS, topic="orders", type="decision")
        assert until(texts) == [ORDERS]


def test_a_server_on_a_port_answers_too_and_leaves_nothing(home: Path, folder: str) -> None:
    with HttpServer(home) as server:
        assert until(lambda: asked(home, folder) is not None)
        assert note_of(home) == home / "hooks" / "desks" / f"{server.pid}.json"
        assert server.stop() == 0
    assert note_of(home) is None


def test_one_of_another_agent_is_not_asked(home: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer(home):
        assert until(lambda: asked(home, folder) is not None)
        monkeypatch.setenv("MINDHOLD_AGENT", "ada")
        assert asked(home, folder) is None
        monkeypatch.setenv("MINDHOLD_AGENT", "default")
        assert asked(home, folder) == []


def test_one_that_was_killed_is_not_asked(home: Path, folder: str) -> None:
    with HttpServer(home) as server:
        until(lambda: note_of(home))
        server.kill()
        assert note_of(home) is not None
        assert asked(home, folder) is None
        assert note_of(home) is None


def test_a_server_that_was_there_before_any_hook_answers(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "home"
    with HttpServer(home):
        assert note_of(home) is None
        (home / "hooks").mkdir(mode=0o700)
        assert until(lambda: asked(home, folder) is not None)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"no JSON\n",
        b"[]\n",
        b'{"ask": "prompt", "text": "x", "cwd": ""}\n',
        b'{"token": "wrong", "ask": "prompt", "text": "x", "cwd": ""}\n',
        b'{"token": 5, "ask": "prompt", "text": "x", "cwd": ""}\n',
        b'{"token": "TOKEN", "ask": "everything", "text": "x", "cwd": ""}\n',
        b'{"token": "TOKEN", "ask": "prompt", "text": 5, "cwd": ""}\n',
        b"x" * (2 << 20),
    ],
)
def test_who_asks_amiss_gets_no_answer_and_breaks_nothing(desk: Path, line: bytes) -> None:
    note = json.loads(desk.read_text(encoding="ascii"))
    with socket.create_connection((server.HOST, note["port"]), timeout=WAIT) as connection:
        try:
            connection.sendall(line.replace(b"TOKEN", note["token"].encode()))
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1024) == b""
        except OSError as error:
            if error.errno not in HUNG_UP:
                raise
    assert asked(desk.parents[2], "") == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The note of a desk that is open."""
    home = tmp_path_factory.mktemp("desk") / "home"
    (home / "hooks").mkdir(parents=True, mode=0o700)
    with HttpServer(home):
        assert until(lambda: asked(home, "") is not None)
        yield note_of(home)


def test_the_token_is_for_its_owner_only(desk: Path) -> None:
    if os.name != "nt":
        assert desk.stat().st_mode & 0o777 == 0o600
        assert desk.parent.stat().st_mode & 0o777 == 0o700
