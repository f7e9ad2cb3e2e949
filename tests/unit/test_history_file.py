"""The index of past conversations: what goes in, what is found, what goes out."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged, StoreFull, StoreReadOnly
from mindhold.ports.history import ConversationLabel, IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role, TranscriptCursor, uuid_key
from mindhold.stores.history.connection import pack
from mindhold.stores.history.index import SqliteHistory

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HAS_MODES = os.name == "posix"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


@pytest.fixture
def index(path: Path) -> Iterator[SqliteHistory]:
    made = SqliteHistory(path)
    yield made
    made.close()


def talk(name: str, **more: object) -> IndexedConversation:
    return replace(IndexedConversation(name, "claude", Path(f"/projects/{name}.jsonl")), **more)  # type: ignore[arg-type]


def said(lexemes: str, *, head: bool = False, line: int = 1) -> Passage:
    return Passage((IndexedStep(Role.USER, line, f"text of {lexemes}", START),), lexemes, head)


def found(index: SqliteHistory, *lexemes: str, among: Sequence[int] | None = None) -> list[int]:
    return [match.passage for match in index.search(lexemes, among=among)]


def bytes_of(path: Path) -> bytes:
    return b"".join(one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm"))


@contextmanager
def unable_to_write(path: Path) -> Iterator[None]:
    """Root may write whatever the modes say, so somebody else looks meanwhile."""
    root = HAS_MODES and os.geteuid() == 0
    path.chmod(0o444)
    path.parent.chmod(0o555)
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.parent.chmod(0o755)
        path.chmod(0o644)


class TestKeeping:
    def test_reading_makes_no_file(self, index: SqliteHistory, path: Path) -> None:
        assert index.conversations() == []
        assert index.search(["word"]) == []
        assert index.frequencies(["word"]) == {"word": 0}
        assert index.leaf_summaries() == {}
        assert index.nearest(np.ones(4, np.float32), model="m") == []
        assert index.remove([1]) == 0
        assert index.stock().bytes_on_disk == 0
        assert not path.exists()

    def test_a_conversation_comes_back_as_it_was(self, index: SqliteHistory) -> None:
        whole = IndexedConversation(
            "s",
            "codex",
            Path("/some where/é\udcff.jsonl"),
            size=10,
            modified=2**60,
            note_modified=5,
            cursor=TranscriptCursor(7, 3, "mark"),
            folder="-some-where",
            project="/some where",
            part_of="parent",
            title=ConversationLabel("a title", "ai"),
            summary=ConversationLabel("a summary", "made"),
            model="a model",
            started=START,
            ended=START + timedelta(seconds=1, microseconds=7),
            prompts=3,
            bad_lines=(2, 9),
            skipping=True,
            silent=True,
            gone=True,
            archived=-1,
        )
        kept = index.put(whole, [])
        assert kept == replace(whole, row=kept.row)
        assert index.conversation(kept.row) == kept == index.conversations()[0]
        assert index.conversation(kept.row + 1) is None

    def test_half_a_surrogate_pair_is_no_obstacle(self, index: SqliteHistory) -> None:
        odd = Passage((IndexedStep(Role.CLAUDE, 4, "half \ud83d", tool="Bash", failed=True),), "half")
        kept = index.put(talk("s", title=ConversationLabel("half \ud83d", "ai")), [odd])
        assert index.passages_of(kept.row)[0][1] == odd
        assert index.conversations()[0].title.text == "half ?"

    def test_the_latest_come_first(self, index: SqliteHistory) -> None:
        for name, days in (("b", 2), ("a", 1), ("c", 3)):
            index.put(talk(name, ended=START + timedelta(days=days)), [])
        index.put(talk("never"), [])
        assert [one.session_id for one in index.conversations()] == ["c", "b", "a", "never"]

    def test_a_change_is_seen_by_who_listed_before(self, index: SqliteHistory, path: Path) -> None:
        other = SqliteHistory(path)
        first = index.put(talk("a", ended=START), [])
        assert [one.prompts for one in other.conversations()] == [0]
        index.put(replace(first, prompts=4, ended=START + timedelta(days=1)), [])
        second = index.put(talk("b", ended=START), [])
        assert [(one.session_id, one.prompts) for one in other.conversations()] == [("a", 4), ("b", 0)]
        index.remove([first.row])
        assert other.conversations() == [second]
        other.close()

    def test_passages_are_in_order_and_the_head_first(self, index: SqliteHistory) -> None:
        kept = index.put(talk("s"), [said("one"), said("two", line=5)])
        index.put(kept, [said("three", line=9)])
        index.put(kept, [said("title", head=True)])
        held = index.passages_of(kept.row)
        assert [one.lexemes for _, one in held] == ["title", "one", "two", "three"]
        assert index.passages([row for row, _ in held] + [999]) == dict(held)

    def test_a_head_takes_the_place_of_the_one_before(self, index: SqliteHistory) -> None:
        kept = index.put(talk("s"), [said("zebra", head=True), said("body")])
        assert len(found(index, "zebra")) == 1
        index.put(kept, [said("quagga", head=True)])
        assert found(index, "zebra") == []
        assert [one.lexemes for _, one in index.passages_of(kept.row)] == ["quagga", "body"]
        assert index.frequencies(["body", "quagga"]) == {"body": 1, "quagga": 1}

    def test_anew_drops_what_was_there(self, index: SqliteHistory) -> None:
        kept = index.put(talk("s"), [said("before")], uuids=uuid_key("u"), leaves=[("u", "of u")])
        again = index.put(kept, [said("after")], anew=True)
        assert again.row == kept.row
        assert (found(index, "before"), len(found(index, "after"))) == ([], 1)
        assert index.leaf_summaries() == {}

    def test_the_same_file_is_the_same_conversation(self, index: SqliteHistory) -> None:
        first = index.put(talk("s"), [said("one")])
        second = index.put(talk("s", prompts=2), [said("two")])
        assert first.row == second.row
        assert len(index.passages_of(first.row)) == 2

    def test_what_was_taken_out_meanwhile_does_not_come_back(self, index: SqliteHistory) -> None:
        kept = index.put(talk("s"), [said("one")])
        index.remove([kept.row])
        assert index.put(kept, [said("two")]).row == 0
        assert index.conversations() == []
        assert index.put(kept, [said("three")], anew=True).row > kept.row

    def test_many_at_once_are_kept_together_or_not_at_all(self, index: SqliteHistory) -> None:
        index.put(talk("a"), [said("early")])
        too_large = talk("b", size=2**70)
        with pytest.raises(Exception, match="too large"):
            index.put_many(
                [(talk("c"), [said("late")], b"", (), False), (too_large, [said("late")], b"", (), False)]
            )
        assert [one.session_id for one in index.conversations()] == ["a"]
        assert found(index, "late") == []

    def test_stock_counts(self, index: SqliteHistory) -> None:
        kept = index.put(talk("a", cursor=TranscriptCursor(100, 2)), [said("one"), said("two")])
        index.put(talk("b", cursor=TranscriptCursor(50, 2), silent=True), [])
        index.put_vectors({index.passages_of(kept.row)[0][0]: np.ones(4, np.float32)}, model="m")
        stock = index.stock()
        assert (stock.conversations, stock.passages, stock.embedded, stock.bytes_indexed) == (1, 2, 1, 100)
        assert stock.bytes_on_disk > 0


class TestSearch:
    def test_rare_and_repeated_words_count_more(self, index: SqliteHistory) -> None:
        common = [said("common filler words here") for _ in range(20)]
        kept = index.put(
            talk("s"),
            [*common, said("common rare here now"), said("common rare rare rare"), said("unrelated")],
        )
        first, second = found(index, "common", "rare")[:2]
        held = dict(index.passages_of(kept.row))
        assert held[first].lexemes == "common rare rare rare"
        assert held[second].lexemes == "common rare here now"
        assert len(found(index, "common", "rare", "absent")) == 22

    def test_only_among_the_conversations_that_are_given(self, index: SqliteHistory) -> None:
        rows = [index.put(talk(f"s{n}"), [said("shared"), said("other")]).row for n in range(5)]
        matches = index.search(["shared"], among=rows[1:3])
        assert {match.conversation for match in matches} == set(rows[1:3])
        assert index.search(["shared"], among=[]) == []
        assert index.search(["shared"], among=[999]) == []

    def test_what_is_put_or_removed_later_is_seen_at_once(self, index: SqliteHistory, path: Path) -> None:
        other = SqliteHistory(path)
        kept = index.put(talk("a"), [said("word")])
        assert len(found(other, "word")) == 1
        later = index.put(talk("b"), [said("word"), said("word new")])
        assert (len(found(other, "word")), other.frequencies(["new"])) == (3, {"new": 1})
        index.remove([kept.row])
        assert {match.conversation for match in other.search(["word"])} == {later.row}
        other.close()

    def test_words_are_words_whatever_stands_in_them(self, index: SqliteHistory) -> None:
        index.put(talk("s"), [said("한국어 été 2024 \ue001x")])
        for lexeme in ("한국어", "été", "2024", "\ue001x"):
            assert len(found(index, lexeme)) == 1
        for nothing in ('"', "*", "a b", "", "NEAR(", "lexemes:x"):
            assert found(index, nothing) == []

    def test_limits_hold(self, index: SqliteHistory) -> None:
        index.put(talk("s"), [said(f"word w{n}") for n in range(30)])
        assert len(index.search(["word"], limit=7)) == 7
        assert index.search(["word"], limit=0) == []
        assert index.search([]) == []

    def test_threads_may_search_while_one_writes(self, index: SqliteHistory) -> None:
        index.put(talk("first"), [said("word")])
        wrong: list[object] = []

        def look() -> None:
            for _ in range(30):
                matches = index.search(["word"])
                held = index.passages([match.passage for match in matches])
                if not matches or any("word" not in one.lexemes for one in held.values()):
                    wrong.append(matches)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(20):
            kept = index.put(talk(f"s{n}"), [said("word again"), said("else")])
            if n % 3 == 0:
                index.remove([kept.row])
        for thread in threads:
            thread.join()
        assert wrong == []


class TestVectors:
    def test_the_nearest_come_first_and_follow_the_file(self, index: SqliteHistory, path: Path) -> None:
        other = SqliteHistory(path)
        a = index.put(talk("a"), [said("one"), said("two")])
        b = index.put(talk("b"), [said("three")])
        (one, _), (two, _) = index.passages_of(a.row)
        three = index.passages_of(b.row)[0][0]
        axes = np.eye(8, dtype=np.float32)
        index.put_vectors({one: axes[0], two: axes[1], 999: axes[2]}, model="m")
        query = axes[0] + 0.4 * axes[1] + 0.7 * axes[2]
        assert [match.passage for match in other.nearest(query, model="m")] == [one, two]
        index.put_vectors({three: axes[2]}, model="m")
        matches = other.nearest(query, model="m")
        assert [(match.passage, match.conversation) for match in matches] == [
            (one, a.row),
            (three, b.row),
            (two, a.row),
        ]
        assert matches[0].score == pytest.approx(1 / np.sqrt(1 + 0.16 + 0.49), abs=0.01)
        assert [match.passage for match in other.nearest(query, model="m", among=[b.row])] == [three]
        assert other.nearest(query, model="another") == []
        index.remove([a.row])
        assert [match.passage for match in other.nearest(query, model="m")] == [three]
        other.close()

    def test_what_a_model_has_not_seen_the_latest_first(self, index: SqliteHistory) -> None:
        old = index.put(talk("old", ended=START), [said("one")])
        new = index.put(talk("new", ended=START + timedelta(days=1)), [said("two"), said("three")])
        assert next(iter(index.unembedded("m", limit=1).values())).lexemes == "two"
        seen = dict.fromkeys((row for row, _ in index.passages_of(new.row)), np.ones(4, np.float32))
        index.put_vectors(seen, model="m")
        assert [one.lexemes for one in index.unembedded("m", limit=9).values()] == ["one"]
        assert len(index.unembedded("n", limit=9)) == 3
        assert old.row != new.row

    def test_a_replaced_head_is_not_found(self, index: SqliteHistory) -> None:
        kept = index.put(talk("s"), [said("zebra", head=True)])
        vector = np.ones(4, np.float32)
        index.put_vectors({index.passages_of(kept.row)[0][0]: vector}, model="m")
        assert len(index.nearest(vector, model="m")) == 1
        index.put(kept, [said("quagga", head=True)])
        assert index.nearest(vector, model="m") == []


class TestLeaves:
    def test_a_summary_finds_the_conversation_it_is_about(self, index: SqliteHistory) -> None:
        met = index.put(talk("met"), [], leaves=[("leaf", "old words"), ("nowhere", "of nothing")])
        assert index.leaf_summaries() == {}
        uuids = b"".join(uuid_key(name) for name in ("x", "leaf", "y"))
        about = index.put(talk("about"), [], uuids=uuids)
        assert index.leaf_summaries() == {about.row: "old words"}
        index.put(met, [], leaves=[("leaf", "new words")])
        index.put(about, [], uuids=uuid_key("z"))
        index.put(talk("third"), [], leaves=[("z", "last words")])
        assert index.leaf_summaries() == {about.row: "last words"}
        fork = index.put(talk("fork"), [], uuids=uuids)
        assert index.leaf_summaries() == {about.row: "last words", fork.row: "new words"}

    def test_what_sums_up_a_removed_conversation_goes_with_it(self, index: SqliteHistory, path: Path) -> None:
        index.put(talk("met"), [], leaves=[("leaf", "qwxvsummary words")])
        about = index.put(talk("about"), [], uuids=uuid_key("leaf"))
        index.remove([about.row])
        assert b"qwxvsummary" not in bytes_of(path)
        index.put(talk("about"), [], uuids=uuid_key("leaf"))
        assert index.leaf_summaries() == {}


class TestLeavingNothing:
    SECRET = "zqxjkvplumbus"

    def fill(self, index: SqliteHistory) -> tuple[IndexedConversation, Passage]:
        secret = Passage(
            (IndexedStep(Role.USER, 1, f"the {self.SECRET} plan " * 40, START),), f"the {self.SECRET} plan"
        )
        for n in range(30):
            index.put(talk(f"s{n}"), [said(f"word{n} w{n * k} shared") for k in range(20)])
        kept = index.put(
            talk("secret", title=ConversationLabel(f"about {self.SECRET}", "ai"), project=f"/{self.SECRET}"),
            [secret, said(f"{self.SECRET} title", head=True)],
        )
        kept = index.put(kept, [said(f"{self.SECRET}2 title", head=True)])
        for n in range(30):
            index.put(talk(f"t{n}"), [said(f"more{n} w{n * k} shared") for k in range(20)])
        return kept, secret

    def test_no_byte_of_a_removed_conversation(self, index: SqliteHistory, path: Path) -> None:
        kept, secret = self.fill(index)
        packed = pack(secret)[4:]
        traces = (self.SECRET.encode(), self.SECRET[3:].encode(), packed, packed[20:60])
        held = bytes_of(path)
        assert all(trace in held for trace in traces)
        assert index.remove([kept.row]) == 2
        left = bytes_of(path)
        assert not any(trace in left for trace in traces)
        assert len(found(index, "shared")) == 200

    def test_nor_of_one_that_is_left_out_from_now_on(self, index: SqliteHistory, path: Path) -> None:
        kept, _ = self.fill(index)
        index.put(talk("secret", row=kept.row, silent=True), [], anew=True)
        assert self.SECRET[3:].encode() not in bytes_of(path)

    def test_a_reader_that_lingers_only_delays_it(self, path: Path) -> None:
        index = SqliteHistory(path, busy_timeout_ms=50)
        kept, _ = self.fill(index)
        reader = sqlite3.connect(path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM passage").fetchone()
        index.remove([kept.row])
        reader.close()
        index.put(talk("next"), [said("next")])
        assert self.SECRET[3:].encode() not in bytes_of(path)
        index.close()

    def test_what_can_wait_is_done_by_tidying(self, index: SqliteHistory, path: Path) -> None:
        kept, _ = self.fill(index)
        size = path.stat().st_size
        assert index.remove([kept.row], at_once=False) == 2
        index.put(talk("next"), [said("next")])
        assert path.stat().st_size >= size
        index.tidy()
        assert self.SECRET[3:].encode() not in bytes_of(path)


class TestTrouble:
    def test_a_damaged_file_is_made_anew(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        index = SqliteHistory(path)
        kept = index.put(talk("s"), [said(f"word{n}") for n in range(500)])
        index.close()
        content = bytearray(path.read_bytes())
        content[8192:] = os.urandom(len(content) - 8192)
        path.write_bytes(content)
        assert index.conversations() == []
        assert "made anew" in caplog.text
        assert index.put(kept, []).row == 0
        assert index.put(talk("s"), [said("again")]).row > 0
        assert len(found(index, "again")) == 1
        index.close()

    def test_a_file_that_is_none_is_made_anew(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"something else altogether" * 500)
        index = SqliteHistory(path)
        with pytest.raises(StoreDamaged, match="made anew"):
            index.put(talk("s"), [said("word")])
        index.put(talk("s"), [said("word")])
        assert len(found(index, "word")) == 1
        index.close()

    def test_one_that_cannot_be_deleted_is_told_of(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.parent.mkdir()
        path.write_bytes(b"something else altogether" * 500)

        def held_by_another(self: Path, missing_ok: bool = False) -> None:  # as Windows has it
            raise PermissionError(13, "The process cannot access the file")

        index = SqliteHistory(path)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", held_by_another)
            with pytest.raises(StoreBusy, match="can't be deleted"):
                index.put(talk("s"), [said("word")])
            assert index.conversations() == []
        index.close()

    def test_who_deletes_the_file_loses_nothing_but_what_was_derived(
        self, index: SqliteHistory, path: Path
    ) -> None:
        index.put(talk("a"), [said("word"), said("word")])
        assert len(found(index, "word")) == 2
        index.conversations()
        for one in list(path.parent.iterdir()):
            one.unlink()
        assert (index.conversations(), found(index, "word")) == ([], [])
        index.put(talk("b"), [said("word")])
        assert [one.session_id for one in index.conversations()] == ["b"]
        assert len(found(index, "word")) == 1

    def test_another_version_is_made_anew_and_a_newer_one_left_alone(self, path: Path) -> None:
        path.parent.mkdir()
        earlier = sqlite3.connect(path)
        earlier.executescript(
            "CREATE VIRTUAL TABLE lexeme USING fts5 (x); CREATE TABLE state (x); PRAGMA user_version = -1"
        )
        earlier.close()
        index = SqliteHistory(path)
        assert index.conversations() == []
        index.put(talk("s"), [said("word")])
        assert len(found(index, "word")) == 1
        index.close()
        later = sqlite3.connect(path)
        later.execute("PRAGMA user_version = 999")
        later.close()
        with pytest.raises(SchemaTooNew):
            index.conversations()
        with pytest.raises(SchemaTooNew):
            index.put(talk("s"), [])
        index.close()

    def test_a_full_disk_writes_nothing_by_halves(self, path: Path) -> None:
        index = SqliteHistory(path, most_pages=60)
        noise = np.random.default_rng(0)
        stored = 0

        def fill() -> None:
            nonlocal stored
            while True:
                words = " ".join(map(str, noise.integers(0, 10**9, 400)))
                index.put(talk(f"s{stored}"), [said(words), said("second")])
                stored += 1

        with pytest.raises(StoreFull):
            fill()
        assert len(index.conversations()) == len(found(index, "second")) == stored > 0
        index.close()

    def test_who_waits_too_long_is_told_and_readers_do_not_wait(self, path: Path) -> None:
        index = SqliteHistory(path, busy_timeout_ms=30)
        index.put(talk("s"), [said("word")])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            index.put(talk("t"), [])
        assert len(found(index, "word")) == 1
        other.execute("ROLLBACK")
        other.close()
        index.put(talk("t"), [])
        index.close()

    def test_where_nothing_can_be_written_it_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            path = Path(folder) / "data" / "history.db"
            index = SqliteHistory(path)
            kept = index.put(talk("s"), [said("word")])
            index.close()
            with unable_to_write(path):
                assert len(found(index, "word")) == len(index.conversations()) == 1
                if HAS_MODES:
                    with pytest.raises(StoreReadOnly):
                        index.put(kept, [said("more")])
                index.close()

    def test_it_is_for_its_owner_only(self, index: SqliteHistory, path: Path) -> None:
        index.put(talk("s"), [said("word")])
        if HAS_MODES:
            assert {one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == {0o600}
            assert path.parent.stat().st_mode & 0o777 == 0o700

    def test_closing_twice_and_using_it_again(self, index: SqliteHistory) -> None:
        index.put(talk("s"), [said("word")])
        index.close()
        index.close()
        assert len(found(index, "word")) == 1


READER = """
import sys
from pathlib import Path
from mindhold.stores.history.index import SqliteHistory
index = SqliteHistory(Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    print(len(index.search(["word"])), len(index.conversations()), flush=True)
index.close()
"""


def test_readers_in_other_processes_see_each_write(index: SqliteHistory, path: Path) -> None:
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    rows = []
    for n in range(1, 6):
        rows.append(index.put(talk(f"s{n}"), [said("word")]).row)
        assert {_asked(reader) for reader in readers} == {f"{n} {n}"}
    index.remove(rows[:2])
    assert {_asked(reader) for reader in readers} == {"3 3"}
    for reader in readers:
        reader.communicate()
        assert reader.returncode == 0


def _asked(reader: subprocess.Popen[str]) -> str:
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write("\n")
    reader.stdin.flush()
    return reader.stdout.readline().strip()


def test_what_is_packed_is_small() -> None:
    passage = said("repeated words " * 100)
    assert len(pack(passage)) < 200
    assert zlib.decompress(pack(passage)[4:])
