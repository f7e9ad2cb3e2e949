"""The index of conversations while servers run, in the background, and when what indexes is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp_clients import HttpServer, Wire, command, surroundings

from mindhold.hooks.event_queue import put_event
from mindhold.hooks.lease import Lease, indexer_lock_path
from mindhold.hooks.worker import start_indexer, start_worker
from mindhold.ports.history import IndexedConversation
from mindhold.stores.history.index import SqliteHistory

PATIENCE = 90.0  # for what must come about in the end


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Whose transcripts lie in `claude`; at the end no process of it is left."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    yield made
    until(lambda: not processes(made), "no process is left")


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the environment of this process has it."""
    for name in [name for name in os.environ if name.startswith(("MINDHOLD_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    for name, value in surroundings(home).items():
        monkeypatch.setenv(name, value)
    return home


def until(so: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < limit, f"not within {PATIENCE:.0f} seconds: {what}"
        time.sleep(0.05)


def processes(home: Path, *, having: str = "") -> list[psutil.Process]:
    """Those that are there for this home, besides this one."""
    found = []
    for process in psutil.process_iter():
        try:
            other = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if other and process.environ().get("MINDHOLD_HOME") == str(home) and having in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def entry(session: str, number: int, text: str) -> str:
    role = "assistant" if number % 2 else "user"
    content: Any = [{"type": "text", "text": text}] if number % 2 else text
    told = {
        "type": role,
        "message": {"id": f"{session}-{number}", "role": role, "content": content},
        "sessionId": session,
        "uuid": f"{session}-{number}",
        "cwd": "/code/shop",
        "timestamp": "2026-03-01T10:00:00.000Z",
    }
    return json.dumps(told) + "\n"


def file_of(home: Path, session: str) -> Path:
    return home / "claude" / "projects" / "-code-shop" / f"{session}.jsonl"


def say(home: Path, session: str, *texts: str, first: int = 0) -> Path:
    """More of a conversation, a person's words and the assistant's in turn."""
    file = file_of(home, session)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(entry(session, number, text) for number, text in enumerate(texts, first))
    return file


def output(session: str, number: int, text: str) -> str:
    """What a tool gave back: most of what transcripts are."""
    block = {"type": "tool_result", "tool_use_id": f"{session}-{number}", "content": text}
    told = {"type": "user", "message": {"role": "user", "content": [block]}, "sessionId": session}
    return json.dumps({**told, "cwd": "/code/shop", "timestamp": "2026-03-01T10:00:00.000Z"}) + "\n"


def backlog(home: Path, *, megabytes: int, sessions: int) -> set[str]:
    """So much of different conversations, each with a few words in it; the sessions."""
    names = {f"talk-{number:03d}" for number in range(sessions)}
    for name in names:
        long = output(name, 0, "the valve holds, " * 6_000)
        for number in range(0, max(2, megabytes * 1_000_000 // sessions // len(long)), 2):
            say(home, name, f"What of step {number} in {name}?", f"Step {number} is done.", first=number)
            with file_of(home, name).open("a", encoding="utf-8") as stream:
                stream.write(long * 2)
    return names


def indexed(home: Path) -> dict[str, IndexedConversation]:
    with closing(SqliteHistory(home / "data" / "history.db")) as index:
        return {one.session_id: one for one in index.conversations()}


def words(home: Path, session: str) -> list[str]:
    """All that is indexed of what was said in it, in order."""
    with closing(SqliteHistory(home / "data" / "history.db")) as index:
        rows = [one.row for one in index.conversations() if one.session_id == session]
        found = [passage for row in rows for _, passage in index.passages_of(row) if not passage.head]
    return [one.text for passage in found for one in passage.utterances]


def is_whole(home: Path, session: str) -> bool:
    one = indexed(home).get(session)
    return one is not None and one.cursor.offset == file_of(home, session).stat().st_size


def held(home: Path) -> bool:
    """Whether something indexes in the background."""
    with Lease(str(home), path=indexer_lock_path(str(home))) as mine:
        return not mine


def test_a_running_server_hears_of_what_is_said(home: Path) -> None:
    with HttpServer(home):
        say(home, "first", "Where does the heron nest?", "In the reeds behind the mill.")
        until(lambda: is_whole(home, "first"), "a folder that wasn't there, and its first conversation")
        say(home, "first", "And the stork?", "On the chimney.", first=2)
        until(lambda: "On the chimney." in words(home, "first"), "what was said since")
        say(home, "second", "Which lock jams?", "The upper one.")
        until(lambda: is_whole(home, "second"), "another conversation")
        file_of(home, "first").unlink()
        until(lambda: "first" not in indexed(home), "one that was deleted, of which there is no copy")
    assert words(home, "second") == ["Which lock jams?", "The upper one."]


def test_a_folder_that_took_anothers_place_is_heard(home: Path) -> None:
    say(home, "first", "Where does the heron nest?", "In the reeds behind the mill.")
    with HttpServer(home):
        until(lambda: is_whole(home, "first"), "what was there before")
        projects = home / "claude" / "projects"
        projects.rename(home / "claude" / "before")
        say(home, "second", "Which lock jams?", "The upper one.")
        until(lambda: is_whole(home, "second"), "what lies in the folder that is there now")
        say(home, "second", "And the lower one?", "It holds.", first=2)
        until(lambda: "It holds." in words(home, "second"), "what was said since")


def test_what_was_said_before_is_read_at_the_start(home: Path) -> None:
    say(home, "early", "What feeds the pond?", "A spring.")
    with HttpServer(home):
        until(lambda: is_whole(home, "early"), "what was there before")


def test_two_servers_read_everything_once(home: Path) -> None:
    with HttpServer(home), HttpServer(home):
        for number in range(6):
            for name in ("left", "right"):
                say(home, name, f"Question {number}?", f"Answer {number}.", first=2 * number)
        until(lambda: is_whole(home, "left") and is_whole(home, "right"), "both conversations")
    said = [text for number in range(6) for text in (f"Question {number}?", f"Answer {number}.")]
    assert words(home, "left") == words(home, "right") == said


def test_the_background_reads_all_and_ends(at_home: Path) -> None:
    names = backlog(at_home, megabytes=2, sessions=5)
    assert start_indexer(str(at_home))
    until(lambda: not held(at_home), "its end")
    assert all(is_whole(at_home, name) for name in names)
    with closing(SqliteHistory(at_home / "data" / "history.db")) as index:
        stock = index.stock()
    assert stock.embedded == stock.passages > 0


def test_one_at_a_time_works_in_the_background(at_home: Path) -> None:
    (at_home / "data").mkdir()
    with Lease(str(at_home), path=indexer_lock_path(str(at_home))) as mine:
        assert mine
        assert not start_indexer(str(at_home))
        assert not processes(at_home)
    assert start_indexer(str(at_home))
    until(lambda: not held(at_home), "its end")


def test_what_is_killed_half_way_leaves_no_process_and_an_index_that_goes_on(at_home: Path) -> None:
    names = backlog(at_home, megabytes=40, sessions=20)
    assert start_indexer(str(at_home))
    until(lambda: bool(indexed(at_home)), "something is indexed")
    for process in processes(at_home, having="history-worker"):
        assert process.nice() >= 10
        process.send_signal(signal.SIGKILL)
    until(lambda: not processes(at_home), "all that it started is gone")
    until(lambda: start_indexer(str(at_home)), "another one begins")
    until(lambda: all(is_whole(at_home, name) for name in names), "the rest is read")
    for process in processes(at_home):
        process.kill()  # it makes vectors by now
    for name in names:
        said = [one for one in words(at_home, name) if one.startswith(("What of step", "Step"))]
        assert len(said) == len(set(said))
        assert said[-1] == f"Step {len(said) - 2} is done."


def test_a_question_behind_a_backlog_starts_the_background(home: Path) -> None:
    names = backlog(home, megabytes=45, sessions=15)
    with Wire(home, "--toolsets", "history") as wire:
        wire.greet()
        wire.call("memory_recall", query="valve")
        until(lambda: all(is_whole(home, name) for name in names), "all of it")
        assert wire.close() == 0
    for process in processes(home):
        process.kill()


def test_a_question_from_the_shell_starts_it_too_and_says_so(home: Path) -> None:
    names = backlog(home, megabytes=45, sessions=15)
    asked = subprocess.run(
        command("history", "search", "valve"),
        env=surroundings(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    assert "not read yet" in asked.stderr
    assert "It goes on in the background" in asked.stderr
    until(lambda: all(is_whole(home, name) for name in names), "all of it")
    for process in processes(home):
        process.kill()


def test_the_worker_of_hooks_indexes_what_it_captured(at_home: Path, tmp_path: Path) -> None:
    file = say(at_home, "held", "We decided to use slate for the roof, because it lasts.", "Good.")
    folder = tmp_path / "shop"
    folder.mkdir()
    event = {"event": "Stop", "conversation": "held", "file": str(file), "folder": str(folder), "agent": ""}
    put_event(str(at_home), {**event, "at": time.time()})
    start_worker(str(at_home))
    until(lambda: is_whole(at_home, "held"), "what was captured")
