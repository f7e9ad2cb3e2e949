"""Asking a running Mindhold: over a real socket, for a moment, and only where its note is ours."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindhold.hooks import server

PATIENCE = 20.0  # long enough for a busy machine; those who don't answer are given less
SHORT = 1.0


@contextmanager
def listening(*answers: bytes | None) -> Iterator[tuple[int, list[Any]]]:
    """A port that answers so, each caller in turn; None is silence."""
    heard: list[Any] = []
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(PATIENCE)  # somebody may have run out of time before coming
    silent = threading.Event()

    def serve() -> None:
        for answer in answers:
            line, _ = server.accept()
            with line, line.makefile("rb") as file:
                heard.append(json.loads(file.readline()))
                if answer is None:
                    silent.wait()
                else:
                    line.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1], heard
    finally:
        silent.set()
        thread.join()
        server.close()


def test_a_desk_answers_those_who_know_its_token(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert server.ask_server(home, {"ask": "prompt"}, PATIENCE) is None
    with listening(b'{"memories": [{"id": "\xc3\xa9"}]}\n') as (port, heard):
        token = server.register_server(home, port)
        assert server.ask_server(home, {"ask": "prompt", "text": "é"}, PATIENCE) == {
            "memories": [{"id": "é"}]
        }
    assert heard == [{"token": token, "ask": "prompt", "text": "é"}]
    server.unregister_server(home)
    assert server.ask_server(home, {"ask": "prompt"}, PATIENCE) is None


def test_nonsense_and_silence_are_no_answers(tmp_path: Path) -> None:
    home = str(tmp_path)
    with listening(b"no json\n", b"[]\n", b"") as (port, _):
        server.register_server(home, port)
        for _ in range(3):
            assert server.ask_server(home, {}, PATIENCE) is None
    with listening(None) as (port, _):
        server.register_server(home, port)
        assert server.ask_server(home, {}, SHORT) is None


def test_one_that_is_too_late_is_left_alone_for_a_while(tmp_path: Path) -> None:
    home = str(tmp_path)
    with listening(None) as (port, heard):
        server.register_server(home, port)
        [note] = (tmp_path / "hooks" / "desks").iterdir()
        opened = note.stat().st_mtime
        assert server.ask_server(home, {}, SHORT) is None
    assert len(heard) == 1
    # Nobody listens now, which whoever asked would find out.
    assert server.ask_server(home, {}, PATIENCE) is None
    assert note.stat().st_mtime == opened
    os.utime(note, (opened, opened))  # a minute later
    assert server.ask_server(home, {}, PATIENCE) is None
    assert not note.exists()


def test_what_was_left_behind_is_cleared_away(tmp_path: Path) -> None:
    home = str(tmp_path)
    with listening() as (port, _):
        pass
    server.register_server(home, port)
    folder = tmp_path / "hooks" / "desks"
    assert server.ask_server(home, {}, PATIENCE) is None  # refused
    assert list(folder.iterdir()) == []
    if os.name == "posix":
        (folder / "999999999.json").write_text('{"port": 1, "token": "t"}', encoding="utf-8")
        (folder / "words.json").write_text('{"port": 1, "token": "t"}', encoding="utf-8")
        server.remove_stale_servers(home)
        assert list(folder.iterdir()) == []


def test_a_note_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    if os.name != "posix":
        return
    home = str(tmp_path)
    with listening(b'{"memories": []}\n') as (port, heard):
        server.register_server(home, port)
        [note] = (tmp_path / "hooks" / "desks").iterdir()
        note.chmod(0o666)
        assert server.ask_server(home, {}, PATIENCE) is None
        note.chmod(0o600)
        for broken in (
            '{"port": "80", "token": "t"}',
            '{"port": 99999999, "token": "t"}',
            '{"port": 80}',
            "[",
        ):
            whole = note.read_text(encoding="utf-8")
            note.write_text(broken, encoding="utf-8")
            assert server.ask_server(home, {}, PATIENCE) is None
            note.write_text(whole, encoding="utf-8")
        assert heard == []
        assert server.ask_server(home, {}, PATIENCE) == {"memories": []}


def test_the_one_opened_last_is_asked_first(tmp_path: Path) -> None:
    home = str(tmp_path)
    with listening(b'{"memories": [1]}\n') as (old, heard_old), listening(b'{"memories": [2]}\n') as (new, _):
        server.register_server(home, old)
        folder = tmp_path / "hooks" / "desks"
        [note] = folder.iterdir()
        note.rename(folder / f"{os.getppid()}.json")
        os.utime(folder / f"{os.getppid()}.json", (1, 1))
        server.register_server(home, new)
        assert server.ask_server(home, {}, PATIENCE) == {"memories": [2]}
        server.unregister_server(home)
        assert heard_old == []
        assert server.ask_server(home, {}, PATIENCE) == {"memories": [1]}
