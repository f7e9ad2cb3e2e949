"""A large folder of Claude Code's, made of a few real transcripts: as many conversations, none the same text as another.

The same call makes the same files, byte by byte.
"""

from __future__ import annotations

import json
import os
import random
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

PROJECTS = 24
EPOCH = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
DAYS = 180  # over which the conversations are spread
CHANGED = 0.12  # share of words that another takes the place of
LEAST_GOOD = 0.9  # of a source's lines that are JSON: others are no transcripts

_WORD = re.compile(rb"(?<= )[a-z]{5,14}(?= )")
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CALL = re.compile(rb"\b(toolu|msg|req)_[0-9A-Za-z]{20,40}")
_MOMENT = re.compile(rb'"timestamp":"(\d{4}-\d\d-\d\dT[\d:.]+Z)"')
_SESSION = re.compile(rb'"sessionId":"[^"]*"')
_CWD = re.compile(rb'"cwd":"[^"]*"')


def replicate(source: Path, target: Path, *, size: int, conversations: int) -> list[Path]:
    """Transcripts under target/projects, about `size` bytes in so many conversations, from those in `source`."""
    originals = [text for file in sorted(source.glob("*.jsonl")) if (text := _transcript(file))]
    if not originals:
        raise FileNotFoundError(f"There are no transcripts in {source}.")
    vocabulary = sorted({word for text in originals for word in _WORD.findall(text)})
    chance = random.Random(7)
    shares = [chance.lognormvariate(0.0, 1.0) for _ in range(conversations)]
    scale = size / sum(shares)
    return [
        _conversation(target, number, originals, vocabulary, size=int(share * scale), last=conversations)
        for number, share in enumerate(shares)
    ]


def _transcript(file: Path) -> bytes:
    """Its good lines; nothing where too few are."""
    lines = [line for line in file.read_bytes().split(b"\n") if line.strip()]
    good = [line for line in lines if _is_entry(line)]
    return b"\n".join(good) + b"\n" if lines and len(good) >= LEAST_GOOD * len(lines) else b""


def _is_entry(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _conversation(
    target: Path,
    number: int,
    originals: Sequence[bytes],
    vocabulary: Sequence[bytes],
    *,
    size: int,
    last: int,
) -> Path:
    """One file: copies of transcripts, one after the other, until it is as long as it shall be."""
    chance = random.Random(number)
    session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    cwd = f"/home/dev/project-{number % PROJECTS:02}"
    began = EPOCH + timedelta(days=DAYS * number / last)
    file = target / "projects" / re.sub(r"[^A-Za-z0-9]", "-", cwd) / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with file.open("wb") as stream:
        for part in _parts(originals, chance):
            copy, began = _copied(part, vocabulary, chance, session=session, cwd=cwd, began=began)
            copy = copy if written == 0 or written + len(copy) <= size else _cut(copy, size - written)
            stream.write(copy)
            written += len(copy)
            if written >= size or not copy:
                break
    os.utime(file, (began.timestamp(), began.timestamp()))
    return file


def _parts(originals: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    while True:
        yield from chance.sample(originals, len(originals))


def _cut(copy: bytes, size: int) -> bytes:
    """Whole lines."""
    return copy[: copy.rfind(b"\n", 0, max(size, 0)) + 1]


def _copied(
    text: bytes,
    vocabulary: Sequence[bytes],
    chance: random.Random,
    *,
    session: str,
    cwd: str,
    began: datetime,
) -> tuple[bytes, datetime]:
    """The transcript with ids, times and some words of its own; and when it ends."""
    salt = chance.getrandbits(64)
    draw, pick, most = chance.random, chance.choice, CHANGED

    def word(match: re.Match[bytes]) -> bytes:
        return pick(vocabulary) if draw() < most else match[0]

    def other_uuid(match: re.Match[bytes]) -> bytes:
        return str(uuid.UUID(int=uuid.UUID(match[0].decode()).int ^ (salt << 32))).encode()

    def other_call(match: re.Match[bytes]) -> bytes:
        return match[0][:-16] + f"{salt:016x}".encode()

    text = _WORD.sub(word, text)
    text = _CALL.sub(other_call, _UUID.sub(other_uuid, text))
    text = _SESSION.sub(b'"sessionId":"' + session.encode() + b'"', text)
    text = _CWD.sub(b'"cwd":"' + cwd.encode() + b'"', text)
    moments = [datetime.fromisoformat(one.decode()) for one in _MOMENT.findall(text)]
    first = min(moments, default=began)
    shift = began - first

    def later(match: re.Match[bytes]) -> bytes:
        moment = datetime.fromisoformat(match[1].decode()) + shift
        return f'"timestamp":"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"'.encode()

    return _MOMENT.sub(later, text), max(moments, default=began) + shift + timedelta(minutes=7)
