"""Copies of transcripts: byte by byte, never by halves, for their owner only."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from mindhold.model.errors import InvalidInput, NotFound, StoreDamaged
from mindhold.ports.history import ArchiveSource
from mindhold.stores.history.archive import GzipArchive

HAS_MODES = os.name == "posix"


@pytest.fixture
def archive(tmp_path: Path) -> GzipArchive:
    return GzipArchive(tmp_path / "home" / "archive")


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


def file_of(archive: GzipArchive, tmp_path: Path, name: str = "claude-s") -> Path:
    return tmp_path / "home" / "archive" / f"{name}.jsonl.gz"


def lines(count: int, *, seed: int = 0, length: int = 400) -> bytes:
    chance = random.Random(seed)
    return b"".join(b'{"n":"%s"}\n' % chance.randbytes(length // 2).hex().encode() for _ in range(count))


def unpacked(archive: GzipArchive, tmp_path: Path, name: str = "claude-s") -> bytes:
    target = tmp_path / "out.jsonl"
    archive.unpack(name, target)
    return target.read_bytes()


def test_it_grows_with_its_file_and_is_the_same_byte_by_byte(
    archive: GzipArchive, tmp_path: Path, transcript: Path
) -> None:
    content = b""
    for part in range(4):
        content += lines(part * 20 + 1, seed=part)
        transcript.write_bytes(content)
        assert archive.add("claude-s", transcript).size == len(content)
    assert unpacked(archive, tmp_path) == content
    assert gzip.decompress(file_of(archive, tmp_path).read_bytes()) == content
    (one,) = archive.all()
    assert (one.name, one.size) == ("claude-s", len(content))
    assert one.on_disk == file_of(archive, tmp_path).stat().st_size


def test_nothing_new_changes_nothing(archive: GzipArchive, tmp_path: Path, transcript: Path) -> None:
    transcript.write_bytes(lines(5))
    archive.add("claude-s", transcript)
    before = file_of(archive, tmp_path).read_bytes()
    assert archive.add("claude-s", transcript).size == transcript.stat().st_size
    assert file_of(archive, tmp_path).read_bytes() == before


def test_a_large_file_is_many_members_of_whole_lines(
    archive: GzipArchive, tmp_path: Path, transcript: Path
) -> None:
    content = (
        lines(3_000, length=1_000) + b'{"long":"' + b"x" * 3_000_000 + b'"}\n' + lines(2_000, length=1_000)
    )
    transcript.write_bytes(content)
    assert archive.add("claude-s", transcript).size == len(content)
    assert unpacked(archive, tmp_path) == content
    assert file_of(archive, tmp_path).read_bytes().count(b"\x1f\x8b\x08\x04") >= 5


def test_a_line_that_is_not_whole_is_copied_and_completed(
    archive: GzipArchive, tmp_path: Path, transcript: Path
) -> None:
    whole = lines(3)
    for end in (b'{"half": "', b'{"half": "no"}', b'{"half": "no"}\n' + lines(2, seed=9)):
        transcript.write_bytes(whole + end)
        assert archive.add("claude-s", transcript).size == transcript.stat().st_size
        assert unpacked(archive, tmp_path) == transcript.read_bytes()
    assert [one.name for one in archive.all()] == ["claude-s"]


def test_an_empty_file_has_nothing(archive: GzipArchive, transcript: Path) -> None:
    transcript.write_bytes(b"")
    assert archive.add("claude-s", transcript).size == 0
    assert (archive.all(), archive.sizes()) == ([], {})


def test_a_copy_says_what_it_is_of(archive: GzipArchive, tmp_path: Path, transcript: Path) -> None:
    about = ArchiveSource(tmp_path / "f\udcff.jsonl", "claude", "agent-1", "s", "-shop", "/shop")
    transcript.write_bytes(lines(3_000))
    now = archive.add("claude-s", transcript, about=about)
    assert (now.about, now.modified) == (about, transcript.stat().st_mtime_ns)
    transcript.write_bytes(lines(3_000) + lines(1, seed=4))
    archive.add("claude-s", transcript, about=about)
    assert [one.about for one in archive.all()] == [about]
    assert gzip.decompress(file_of(archive, tmp_path).read_bytes()) == transcript.read_bytes()


def test_a_document_is_copied_whole_and_takes_the_place_of_its_copy(
    archive: GzipArchive, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    for count in (1, 2, 3):
        file.write_text(json.dumps({"messages": ["x"] * count}, indent=2), encoding="utf-8")
        archive.add("gemini-s", file)
        assert unpacked(archive, tmp_path, "gemini-s") == file.read_bytes()
    assert set(archive.sizes()) == {"gemini-s"}
    longest = file.read_bytes()
    for short in (b'{"messages": ["y"]}', b"{}"):
        file.write_bytes(short)
        archive.add("gemini-s", file)
        assert unpacked(archive, tmp_path, "gemini-s") == short
        assert unpacked(archive, tmp_path, "gemini-s~1") == longest
    assert len(list((tmp_path / "home" / "archive").iterdir())) == 2


def test_it_ends_where_there_is_no_room(archive: GzipArchive, tmp_path: Path, transcript: Path) -> None:
    transcript.write_bytes(lines(3_000, length=1_000))
    asked: list[int] = []

    def noted(added: int) -> bool:
        asked.append(added)
        return False

    now = archive.add("claude-s", transcript, fits=noted)
    assert len(asked) == 1
    assert 0 < now.size < transcript.stat().st_size
    assert now.on_disk == asked[0]
    document = tmp_path / "chat.json"
    document.write_bytes(transcript.read_bytes())
    assert archive.add("gemini-s", document, fits=lambda _added: False).size == 0
    assert set(archive.sizes()) == {"claude-s"}


@pytest.mark.parametrize("cut", [1, 20, 40, 100, 2_000])
def test_a_half_member_is_cut_off_before_the_next(
    archive: GzipArchive, tmp_path: Path, transcript: Path, cut: int
) -> None:
    first = lines(20)
    transcript.write_bytes(first)
    archive.add("claude-s", transcript)
    sound = file_of(archive, tmp_path).stat().st_size
    transcript.write_bytes(first + lines(20, seed=1))
    archive.add("claude-s", transcript)
    whole = file_of(archive, tmp_path).read_bytes()
    file_of(archive, tmp_path).write_bytes(whole[:sound] + bytes(36) + whole[sound + 36 : sound + 36 + cut])
    assert unpacked(archive, tmp_path) == first
    assert archive.all()[0].size == len(first)
    assert archive.add("claude-s", transcript).size == transcript.stat().st_size
    assert file_of(archive, tmp_path).read_bytes() == whole


def test_a_last_member_that_the_disk_lost_is_written_again(
    archive: GzipArchive, tmp_path: Path, transcript: Path
) -> None:
    content = lines(40)
    transcript.write_bytes(content)
    archive.add("claude-s", transcript)
    damaged = bytearray(file_of(archive, tmp_path).read_bytes())
    damaged[60:90] = bytes(30)
    file_of(archive, tmp_path).write_bytes(damaged)
    with pytest.raises(StoreDamaged):
        archive.unpack("claude-s", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    archive.add("claude-s", transcript)
    assert unpacked(archive, tmp_path) == content


@pytest.mark.parametrize("content", [lines(3, seed=7), lines(20)[:-100] + b'"}\n' + lines(5, seed=7)])
def test_another_file_in_its_place_loses_nothing(
    archive: GzipArchive, tmp_path: Path, transcript: Path, content: bytes
) -> None:
    before = lines(20)
    transcript.write_bytes(before)
    archive.add("claude-s", transcript)
    transcript.write_bytes(content)
    assert archive.add("claude-s", transcript).size == len(content)
    assert unpacked(archive, tmp_path) == content
    assert unpacked(archive, tmp_path, "claude-s~1") == before
    transcript.write_bytes(lines(2, seed=8))
    archive.add("claude-s", transcript)
    assert {one.name for one in archive.all()} == {"claude-s", "claude-s~1", "claude-s~2"}
    assert archive.remove("claude-s")
    assert archive.all() == []


def test_removing_takes_no_other_with_it(archive: GzipArchive, transcript: Path) -> None:
    transcript.write_bytes(lines(2))
    for name in ("claude-s", "claude-s2", "claude-s.part"):
        archive.add(name, transcript)
    assert archive.remove("claude-s")
    assert not archive.remove("claude-s")
    assert {one.name for one in archive.all()} == {"claude-s2", "claude-s.part"}


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a\0b", "a b", "é", "x" * 300, "a~b", "a*", "ends."],
)
def test_names_that_lead_elsewhere_are_refused(archive: GzipArchive, transcript: Path, name: str) -> None:
    transcript.write_bytes(lines(1))
    for act in (
        lambda: archive.add(name, transcript),
        lambda: archive.unpack(name, transcript),
        lambda: archive.remove(name),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert archive.all() == []


def test_what_is_not_there(archive: GzipArchive, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        archive.unpack("claude-s", tmp_path / "out.jsonl")
    with pytest.raises(FileNotFoundError):
        archive.add("claude-s", tmp_path / "gone.jsonl")
    assert not archive.remove("claude-s")
    assert archive.all() == []


def test_it_is_for_its_owner_only(archive: GzipArchive, tmp_path: Path, transcript: Path) -> None:
    transcript.write_bytes(lines(2))
    archive.add("claude-s", transcript)
    archive.unpack("claude-s", tmp_path / "out.jsonl")
    if HAS_MODES:
        assert (tmp_path / "home" / "archive").stat().st_mode & 0o777 == 0o700
        assert file_of(archive, tmp_path).stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in (tmp_path / "home" / "archive").iterdir()] == ["claude-s.jsonl.gz"]
