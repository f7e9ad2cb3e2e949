"""The private mongod of a home: who starts it, who shares it, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from mindhold.model.errors import SettingsError, StoreDenied, StoreError
from mindhold.model.query import Filter
from mindhold.stores.mongo.embedded import EmbeddedMongo, find_mongod
from mindhold.stores.mongo.server_process import RunningMongod, read_running
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import START, Builder

pytestmark = pytest.mark.needs("mongodb")

USER = """
import asyncio, sys
from pathlib import Path
from mindhold.stores.mongo.embedded import EmbeddedMongo

async def main():
    async with EmbeddedMongo(Path(sys.argv[1])) as mongo:
        print(mongo.uri, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "a home"
    yield home
    until(lambda: not processes(home))


def processes(home: Path) -> list[psutil.Process]:
    """Those that name the home: mongod and its keeper."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(home) in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid():
            found.append(process)
    return found


def running(home: Path) -> RunningMongod:
    found = read_running(home / "data" / "mongo")
    assert found is not None
    return found


def until(holds: Callable[[], bool], *, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def user(home: Path) -> subprocess.Popen[str]:
    """Another process that uses it until it is told to leave."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("mongodb://")
    return process


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def store_at(uri: str) -> MongoStore:
    return MongoStore(uri, clock=lambda: START, timeout_ms=20_000, embedded=True)


async def test_it_starts_keeps_and_stops(home: Path) -> None:
    put = Builder().put("kept")
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        await store.apply([put])
        await store.close()
        assert len(processes(home)) == 2
        assert (home / "logs" / "mongo.log").exists()
    until(lambda: not processes(home))
    assert read_running(home / "data" / "mongo") is None
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        assert await store.find(Filter()) == [put.memory]
        await store.close()


async def test_nobody_else_gets_in(home: Path) -> None:
    async with EmbeddedMongo(home) as mongo:
        port = running(home).port
        for uri in (f"mongodb://127.0.0.1:{port}/", f"mongodb://mindhold:guess@127.0.0.1:{port}/"):
            async with AsyncMongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=5_000) as client:
                with pytest.raises(OperationFailure):
                    await client["claude_memory"]["Metadata"].find_one()
        addresses = {
            one.laddr[0]
            for one in psutil.Process(running(home).pid).net_connections()
            if one.status == "LISTEN"
        }
        assert addresses == {"127.0.0.1"}
        assert "@127.0.0.1:" in mongo.uri


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_its_files_are_the_owners_alone(home: Path) -> None:
    async with EmbeddedMongo(home):
        for path in (home / "data" / "mongo").rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
        assert stat.S_IMODE((home / "data" / "mongo").stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "data" / "mongo" / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE((home / "logs" / "mongo.log").stat().st_mode) == 0o600


async def test_its_log_has_a_bound_and_no_words(home: Path) -> None:
    async with EmbeddedMongo(home, largest_log=4_000) as mongo:
        log, before = home / "logs" / "mongo.log", home / "logs" / "mongo.log.1"
        async with AsyncMongoClient[dict[str, Any]](mongo.uri) as client:
            told = await client["claude_memory"].command({"profile": -1})
            assert (told["was"], told["sampleRate"]) == (0, 0)  # nothing is told for being slow
            assert (await client.admin.command({"getParameter": 1, "logLevel": 1}))["logLevel"] == 0
        until(lambda: before.exists() and log.exists() and log.stat().st_size < 4_000)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (log, before)}
        assert sys.platform == "win32" or modes == {0o600}
        full = before.stat().st_mtime_ns
        async with AsyncMongoClient[dict[str, Any]](mongo.uri) as client:
            while before.stat().st_mtime_ns == full:  # what it logs is its own: logins that fail
                with suppress(OperationFailure):
                    wrong = mongo.uri.replace("mindhold:", "nobody:")
                    async with AsyncMongoClient[dict[str, Any]](wrong) as other:
                        await other.admin.command("ping")
            assert await client.admin.command("ping")
        until(lambda: {path.name for path in log.parent.iterdir()} == {"mongo.log", "mongo.log.1"})


async def test_it_is_told_to_send_nothing_and_runs_as_who_started_it(home: Path) -> None:
    async with EmbeddedMongo(home):
        process = psutil.Process(running(home).pid)
        words = process.cmdline()
        assert words[words.index("--bind_ip") + 1] == "127.0.0.1"
        assert words[words.index("--enableFreeMonitoring") + 1] == "off"
        assert "--auth" in words
        assert process.username() == psutil.Process().username()


async def test_processes_share_it_and_the_last_one_stops_it(home: Path) -> None:
    first, second = await asyncio.gather(asyncio.to_thread(user, home), asyncio.to_thread(user, home))
    pid = running(home).pid
    async with EmbeddedMongo(home):
        leave(first)
        leave(second)
        assert running(home).pid == pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


async def test_a_killed_user_leaves_nothing(home: Path) -> None:
    process = await asyncio.to_thread(user, home)
    found = running(home)
    process.kill()
    process.communicate()
    until(lambda: not processes(home))
    assert not psutil.pid_exists(found.pid)


async def test_a_killed_mongod_comes_back_with_all_that_was_kept(home: Path) -> None:
    put = Builder().put("kept")
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        await store.apply([put])
        before = running(home)
        os.kill(before.pid, signal.SIGKILL)
        assert await store.find(Filter()) == [put.memory]
        assert running(home).pid != before.pid
        await store.close()


async def test_a_killed_keeper_is_replaced(home: Path) -> None:
    put = Builder().put("kept")
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        await store.apply([put])
        before = running(home)
        os.kill(before.keeper_pid, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: running_elsewhere(home, before))
        assert await store.find(Filter()) == [put.memory]
        await store.close()


async def test_a_port_that_another_has_for_a_moment_is_waited_for(home: Path) -> None:
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        before = running(home)
        os.kill(before.keeper_pid, signal.SIGKILL)
        taken: list[socket.socket] = []

        def take() -> bool:
            with suppress(OSError):
                taken.append(socket.create_server(("127.0.0.1", before.port)))
            return bool(taken) or running_elsewhere(home, before)

        await asyncio.to_thread(until, take)
        await asyncio.to_thread(until, lambda: len(processes(home)) > 0)
        for one in taken:
            one.close()
        await asyncio.to_thread(until, lambda: running_elsewhere(home, before))
        assert running(home).port == before.port
        assert await store.find(Filter()) == []
        await store.close()


def running_elsewhere(home: Path, before: RunningMongod) -> bool:
    now = read_running(home / "data" / "mongo")
    return now is not None and now.keeper_pid != before.keeper_pid


async def test_what_a_crash_left_behind_is_no_obstacle(home: Path) -> None:
    process = await asyncio.to_thread(user, home)
    found = running(home)
    for pid in (process.pid, found.keeper_pid, found.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not processes(home))
    folder = home / "data" / "mongo"
    assert read_running(folder) is not None  # stale: nobody is there
    assert (folder / "db" / "mongod.lock").exists()
    async with EmbeddedMongo(home) as mongo:
        store = store_at(mongo.uri)
        await store.open()
        assert await store.count(Filter()) == 0
        await store.close()


async def test_a_missing_mongod_says_what_to_do(home: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mindhold\[mongod\]"):
        find_mongod(str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match="external"):
        await EmbeddedMongo(home, program=str(tmp_path / "nowhere")).start()


@pytest.mark.skipif(sys.platform == "win32", reason="a script as a program is POSIX's")
async def test_a_mongod_that_ends_at_once_is_told(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "mongod"
    broken.write_text("#!/bin/sh\nexit 14\n")
    broken.chmod(0o755)
    with pytest.raises(StoreError, match="status 14"):
        await EmbeddedMongo(home, program=str(broken)).start()


async def test_a_lost_password_is_told(home: Path) -> None:
    async with EmbeddedMongo(home):
        pass
    (home / "data" / "mongo" / "password").write_text("another one")
    with pytest.raises(StoreDenied, match="password"):
        await EmbeddedMongo(home).start()
