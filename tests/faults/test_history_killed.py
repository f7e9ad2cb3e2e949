"""kill -9 at every line of a write to the index or the archive: then it is what it was, or what was meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from history_child import said, talk

from mindhold.stores.history.archive import GzipArchive
from mindhold.stores.history.index import SqliteHistory

PATIENCE = 120  # seconds, for a machine that has much to do
LEAST_DEATHS = 30  # or this tests little


@pytest.fixture
def template(tmp_path: Path) -> Path:
    made = tmp_path / "template"
    made.mkdir()
    return made


def left_behind(work: str, template: Path) -> list[Path]:
    """The folders of all tries; the last one was not killed."""
    folder = template.with_name("tries")
    folder.mkdir()
    child = Path(__file__).with_name("history_child.py")
    ran = subprocess.run(
        [sys.executable, str(child), work, str(template), str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    tries = int(ran.stdout)
    assert tries > LEAST_DEATHS
    return [folder / str(number + 1) for number in range(tries)]


def state(folder: Path) -> tuple[list[str], dict[str, int], int]:
    index = SqliteHistory(folder / "history.db")
    words = ("first", "later", "new", "newer", "both")
    try:
        held = sum(len(index.passages_of(one.row)) for one in index.conversations())
        return sorted(one.session_id for one in index.conversations()), index.frequencies(words), held
    finally:
        index.close()


def test_conversations_are_put_whole_or_not_at_all(template: Path) -> None:
    index = SqliteHistory(template / "history.db")
    index.put(talk("first"), said("first"))
    index.close()
    before = state(template)
    *killed, last = map(state, left_behind("put", template))
    after = (["first", "second"], {"first": 1, "later": 1, "new": 1, "newer": 1, "both": 4}, 4)
    assert last == after != before
    assert all(one in (before, after) for one in killed)
    assert before in killed


def test_conversations_are_removed_whole_or_not_at_all(template: Path) -> None:
    index = SqliteHistory(template / "history.db")
    index.put(talk("first"), said("first", "zqxjkvword"))
    index.close()
    before = state(template)
    folders = left_behind("remove", template)
    states = [state(folder) for folder in folders]
    assert states[-1] == ([], dict.fromkeys(("first", "later", "new", "newer", "both"), 0), 0)
    assert all(one in (before, states[-1]) for one in states)
    for folder, one in zip(folders, states, strict=True):
        if one != before:  # what was not cleaned away goes with the next write
            index = SqliteHistory(folder / "history.db")
            index.put(talk("next"), [])
            assert not any(b"qxjkvword" in file.read_bytes() for file in folder.glob("history.db*"))
            index.close()


def test_an_archived_conversation_is_never_half(template: Path) -> None:
    lines = [b'{"line": %d, "text": "%s"}\n' % (number, b"words " * 30) for number in range(40)]
    transcript = template / "talk.jsonl"
    transcript.write_bytes(b"".join(lines[:15]))
    GzipArchive(template / "archive").add("claude-s", transcript)
    transcript.write_bytes(b"".join(lines))
    for folder in left_behind("add", template):
        archive = GzipArchive(folder / "archive")
        archive.unpack("claude-s", folder / "out.jsonl")
        assert (folder / "out.jsonl").read_bytes() in (b"".join(lines[:15]), b"".join(lines))
        assert archive.add("claude-s", folder / "talk.jsonl").size == transcript.stat().st_size
        archive.unpack("claude-s", folder / "out.jsonl")
        assert (folder / "out.jsonl").read_bytes() == b"".join(lines)
