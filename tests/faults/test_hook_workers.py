"""Workers that hooks start: one at a time, gone when there is nothing to do, whatever dies, hangs or is full."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from conversing import (
    PATIENCE,
    about,
    captured,
    ended,
    environment,
    given,
    loaded,
    run_hook,
    start_hook,
    until,
    until_quiet,
    waiting,
    workers,
    write_conversation,
)
from fault_sites import no_file_beyond

from mindhold.app.application import App, open_app
from mindhold.capture.capture import CAPTURE
from mindhold.hooks.event_queue import put_event
from mindhold.hooks.lease import Lease
from mindhold.model.query import Filter
from support.paid_services import HANG, LanguageServer

MOST_WORKERS = 6
THINGS = ("Spruce", "Basalt", "Copper", "Linen", "Quartz", "Walnut", "Cobalt", "Amber", "Slate", "Hemp")
PLACES = (
    "garden",
    "harbour",
    "bakery",
    "museum",
    "airport",
    "library",
    "theatre",
    "stadium",
    "brewery",
    "mill",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a shop"
    made.mkdir()
    return made


@pytest.fixture
def ten(tmp_path: Path) -> list[Path]:
    """Conversations about different things."""
    return [
        write_conversation(tmp_path / "claude", f"c{number}", about(thing, place))
        for number, (thing, place) in enumerate(zip(THINGS, PLACES, strict=True))
    ]


@pytest.fixture
def one(ten: list[Path]) -> Path:
    return ten[0]


def told_by(file: Path) -> set[str]:
    """What a person said in it."""
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {entry["message"]["content"] for entry in entries if entry["type"] == "user"}


def whole(memories: list[tuple[str, str, str, str]], files: list[Path]) -> bool:
    """Whether everything of the conversations is there, once, in one project."""
    contents = [content for *_, content in memories]
    said = set().union(*(told_by(file) for file in files))
    assert len(contents) == len(set(contents)), contents
    assert {scope for scope, *_ in memories} <= {"a shop"}
    return set(contents) >= said


async def test_a_hundred_hooks_at_once_leave_nobody_and_lose_nothing(
    home: Path, folder: Path, ten: list[Path]
) -> None:
    hooks = [start_hook(home, given("Stop", file, folder)) for _ in range(10) for file in ten]
    assert {ended(hook) for hook in hooks} == {(b"", b"")}
    until_quiet(home)
    assert waiting(home) == []
    assert whole(await captured(home), ten)


async def test_ten_conversations_at_once_from_two_processes(
    home: Path, folder: Path, ten: list[Path]
) -> None:
    async def capture(app: App, file: Path) -> str:
        taken = CAPTURE.takes(file=str(file), folder=str(folder), event="SessionEnd")
        return (await app.run(CAPTURE, taken)).outcome

    async with open_app(loaded(home)) as app, open_app(loaded(home)) as other:
        outcomes = await asyncio.gather(*(capture(each, file) for file in ten for each in (app, other)))
    assert set(outcomes) <= {"captured", "nothing"}
    assert whole(await captured(home), ten)


async def test_a_worker_that_is_killed_is_made_good_by_the_next_hook(
    home: Path, folder: Path, one: Path
) -> None:
    run_hook(home, given("Stop", one, folder))
    for worker in workers(home):
        worker.kill()
    until_quiet(home)
    run_hook(home, given("SessionStart", one, folder, source="startup"))
    until_quiet(home)
    assert waiting(home) == []
    assert whole(await captured(home), [one])


async def test_hooks_that_are_killed_leave_nobody(home: Path, folder: Path, one: Path) -> None:
    hooks = [start_hook(home, given("Stop", one, folder)) for _ in range(8)]
    for number, hook in enumerate(hooks):
        if number % 2:
            hook.send_signal(signal.SIGKILL)
        hook.communicate(timeout=PATIENCE)
    until_quiet(home)
    assert waiting(home) == []
    run_hook(home, given("SessionEnd", one, folder))
    until_quiet(home)
    assert whole(await captured(home), [one])


async def test_a_full_disk_loses_nothing(home: Path, folder: Path, one: Path) -> None:
    # Else Python leaves compiled modules behind that are cut off, for everybody.
    with no_file_beyond(20_000):
        for _ in range(6):  # more often than an event that can't be read is tried
            assert run_hook(home, given("Stop", one, folder), PYTHONDONTWRITEBYTECODE="1") == (b"", b"")
            until_quiet(home)
    left = waiting(home)
    assert [(event["file"], event.get("attempts")) for event in left] == [(str(one), None)]
    assert "STORE_" in (home / "hooks" / "worker.log").read_text(encoding="ascii")
    run_hook(home, given("SessionStart", one, folder, source="startup"))
    until_quiet(home)
    assert waiting(home) == []
    assert whole(await captured(home), [one])


@pytest.mark.parametrize("event", ["SessionStart", "Stop", "SessionEnd"])
def test_a_home_that_can_not_be_written_is_no_fault_of_the_conversation(
    tmp_path: Path, folder: Path, one: Path, event: str
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("no folder", encoding="utf-8")
    for home, limit in ((taken / "home", 1 << 40), (tmp_path / "new", 0)):
        with no_file_beyond(limit):
            out, _ = run_hook(home, given(event, one, folder), PYTHONDONTWRITEBYTECODE="1")
        assert out == b""
        until_quiet(home)


async def test_wrong_settings_lose_nothing(home: Path, folder: Path, one: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[capture]\nkinds = 'nonsense'\n", encoding="utf-8")
    run_hook(home, given("Stop", one, folder))
    until_quiet(home)
    assert len(waiting(home)) == 1
    (home / "config.toml").unlink()
    run_hook(home, given("SessionStart", one, folder, source="startup"))
    until_quiet(home)
    assert whole(await captured(home), [one])


def by_service(server: LanguageServer, **more: Any) -> Mapping[str, Any]:
    return {
        "llm.provider": "compatible",
        "llm.base_url": f"{server.url}/v1",
        "llm.model": "m",
        "capture.extract_with": "model",
        **more,
    }


async def test_a_model_that_hangs_is_done_without(home: Path, folder: Path, one: Path) -> None:
    with LanguageServer(lambda _system, _prompt: "[]") as server:
        server.always(HANG)
        run_hook(home, given("SessionEnd", one, folder), by_service(server, **{"llm.wait_seconds": 1}))
        until_quiet(home)
        assert server.asked
    assert waiting(home) == []
    assert whole(await captured(home), [one])


async def test_a_worker_has_an_end_however_long_others_take(home: Path, folder: Path, one: Path) -> None:
    patient = {"llm.wait_seconds": 600, "capture.worker_seconds": 30}
    with LanguageServer(lambda _system, _prompt: "[]") as server:
        server.always(HANG)
        run_hook(home, given("SessionEnd", one, folder), by_service(server, **patient))
        until_quiet(home)
        assert server.asked
    assert waiting(home) == []  # rules did what the model had no more time for
    assert whole(await captured(home), [one])


async def test_more_than_there_is_time_for_waits_on(home: Path, folder: Path, tmp_path: Path) -> None:
    files = [
        write_conversation(
            tmp_path / "claude", f"c{number}", about(f"{THINGS[number % 10]}{number}", f"hall{number}")
        )
        for number in range(1_000)
    ]
    for file in files:
        put_event(
            str(home),
            given("SessionEnd", file, folder)
            | {"event": "SessionEnd", "file": str(file)}
            | {"conversation": file.stem, "folder": str(folder)},
        )
    left = {str(file) for file in files}
    for _ in range(MOST_WORKERS):  # on a busy machine one may end before it has begun
        run_hook(home, given("SessionStart", files[0], folder), {"capture.worker_seconds": 10})
        until_quiet(home)
        left = {event["file"] for event in waiting(home)}
        if len(left) < len(files):
            break
    assert 0 < len(left) < len(files)
    assert not any("attempts" in event for event in waiting(home))
    assert not (home / "hooks" / "waiting" / "bad").exists()
    contents = {content for *_, content in await captured(home)}
    gone = [file for file in files if str(file) not in left]
    assert set().union(*(told_by(file) for file in gone)) <= contents


async def test_each_conversation_is_its_own_agents(home: Path, folder: Path, ten: list[Path]) -> None:
    """Whichever hook started the worker."""
    with Lease(str(home)) as mine:
        assert mine
        run_hook(home, given("SessionEnd", ten[0], folder), MINDHOLD_AGENT="alice")
        run_hook(home, given("SessionEnd", ten[1], folder), MINDHOLD_AGENT="bob")
        run_hook(home, given("SessionEnd", ten[2], folder), MINDHOLD_CAPTURE_EXCLUDE="a shop")
        run_hook(home, given("SessionEnd", ten[3], folder), MINDHOLD_CAPTURE_ENABLED="false")
    run_hook(home, given("SessionEnd", ten[4], folder), MINDHOLD_AGENT="carol")
    until_quiet(home)
    async with open_app(loaded(home)) as app:
        found = await app.engine.store.find(Filter(viewer="system"), limit=100)
    of = {name: {one.content for one in found if one.agent == name} for name in ("alice", "bob", "carol")}
    assert set(of) == {one.agent for one in found}
    for name, file in zip(of, (ten[0], ten[1], ten[4]), strict=True):
        assert told_by(file) <= of[name]
    assert not any(said in one.content for one in found for said in told_by(ten[2]) | told_by(ten[3]))


async def test_a_folder_that_is_excluded_while_a_worker_lives_is_left_out(
    home: Path, folder: Path, ten: list[Path], tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.mkdir()

    def answer(_system: str, _prompt: str) -> str:
        (home / "config.toml").write_text('[capture]\nexclude = "private"\n', encoding="utf-8")
        return "[]"

    with Lease(str(home)) as mine:
        assert mine
        run_hook(home, given("SessionEnd", ten[0], folder))
        run_hook(home, given("SessionEnd", ten[1], private))
        run_hook(home, given("SessionEnd", ten[2], folder))
    with LanguageServer(answer) as server:
        run_hook(home, given("SessionStart", ten[3], folder), by_service(server))
        until_quiet(home)
        sent = "".join(request.prompt for request in server.asked)
    assert [thing in sent for thing in THINGS[:3]] == [True, False, True]
    assert waiting(home) == []
    assert {scope for scope, *_ in await captured(home)} <= {"a shop"}


@pytest.mark.parametrize("gone_last", [True, False])
def test_documents_are_written_whatever_became_of_another_conversation(
    home: Path, folder: Path, one: Path, gone_last: bool
) -> None:
    document = folder / "CLAUDE.md"
    document.write_text("<!-- MEMORY:START -->\n<!-- MEMORY:END -->\n", encoding="utf-8")
    events = [given("Stop", one, folder), given("SessionEnd", one.with_name("gone.jsonl"), folder)]
    with Lease(str(home)) as mine:
        assert mine
        for event in events if gone_last else reversed(events):
            run_hook(home, event)
    run_hook(home, given("SessionStart", one, folder))
    until_quiet(home)
    assert waiting(home) == []
    assert "Spruce" in document.read_text("utf-8")


def test_a_worker_that_can_not_even_be_told_to_stop_has_an_end(home: Path) -> None:
    stuck = (
        "import sys, time, mindhold.app.application, mindhold.app.worker\n"
        "mindhold.app.application.open_app = lambda loaded: time.sleep(600)\n"
        "mindhold.app.worker.run(sys.argv[1])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", stuck, str(home)],
        env=environment(home, {"capture.worker_seconds": 10}),
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 1


def test_a_program_that_is_asked_ends_with_a_worker_that_is_killed(
    home: Path, folder: Path, one: Path, tmp_path: Path
) -> None:
    program = tmp_path / "fake"
    shutil.copy(Path(__file__).with_name("fake_program.py"), tmp_path / "fake.py")
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "fake.py"}" "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as hearing:
        hearing.settimeout(PATIENCE)
        script = {"hang": True, "tell": hearing.getsockname()[1]}
        (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
        settings = {
            "llm.provider": "claude_cli",
            "llm.command": program,
            "llm.wait_seconds": 600,
            "capture.extract_with": "model",
        }
        run_hook(home, given("SessionEnd", one, folder), settings)
        connection, _ = hearing.accept()
        with connection:
            child = psutil.Process(int(connection.recv(100)))
    parent = child.parent()
    assert parent is not None
    [worker] = [each for each in workers(home) if "hook-worker" in each.cmdline()]
    worker.kill()
    until(lambda: not parent.is_running() and not child.is_running(), "the program has ended")
    until_quiet(home)
    assert len(waiting(home)) == 1


def test_a_worker_stands_back(home: Path, folder: Path, one: Path) -> None:
    """Behind whoever sits at the machine."""
    before = os.nice(0)
    nice: list[int] = []
    with LanguageServer(lambda _system, _prompt: "[]") as server:
        server.always(HANG)
        run_hook(home, given("SessionEnd", one, folder), by_service(server, **{"llm.wait_seconds": 600}))
        assert server.reached.wait(PATIENCE)
        for worker in workers(home):
            nice.append(worker.nice())
            worker.kill()  # it would wait for long
        until_quiet(home)
    assert nice
    assert min(nice) >= max(before, 10)
