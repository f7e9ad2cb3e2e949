"""The format of a backup file: a clear header, parts in compressed blocks with checksums, and a table of contents."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from mindhold import __version__
from mindhold.backup.encryption import (
    DecryptingReader,
    EncryptingWriter,
    file_changed,
    key_of,
    new_encryption,
)
from mindhold.model.errors import Refused
from mindhold.ports.backend import Totals

FORMAT = 1
ENDING = ".backup"
ROWS, EXPORT = "rows", "export"  # forms that every store reads, and that import reads
_MAGIC = b"MINDHOLD BACKUP\n"
_LENGTH = struct.Struct(">I")
_FRAME = struct.Struct(">cI")
_BLOCK = 1 << 20
_LEVEL = 1  # three quarters of what the best gives, at a tenth of its time
_THREADS = 4
_AHEAD = 2 * _THREADS
_MOST_HEAD = 1 << 16
_MOST_FRAME = 1 << 28


@dataclass(frozen=True, slots=True)
class BackupHead:
    """What a backup says of itself in clear."""

    created: datetime
    home: str  # the mode of the store that had everything but what lived elsewhere
    program: str = __version__
    format: int = FORMAT
    seal: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BackupPart:
    """One store's share. `lives` are the scopes of a store that isn't home; `elsewhere` those that home only names."""

    mode: str
    form: str
    totals: Totals = field(default_factory=Totals)
    size: int = 0
    sha256: str = ""
    packed: str = ""  # the sum of the blocks as they stand in the file: not every bit of those matters to what is in them
    lives: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


class ByteSink(Protocol):
    """What can be written to."""

    def write(self, data: bytes, /) -> object: ...


class ByteSource(Protocol):
    """What can be read from: so many bytes, fewer only at the end."""

    def read(self, size: int, /) -> bytes: ...


class BackupWriter:
    """Writes one file, part after part. Blocks are compressed by threads, and written in their order."""

    def __init__(self, stream: BinaryIO, head: BackupHead, passphrase: str | None) -> None:
        seal, key = new_encryption(passphrase) if passphrase else (None, None)
        said = {**asdict(head), "created": head.created.isoformat(), "seal": seal}
        written = json.dumps(said).encode()
        stream.write(_MAGIC + _LENGTH.pack(len(written)) + written)
        self._head = hashlib.sha256(written).digest()
        self._sealing = EncryptingWriter(stream, key, bound=self._head) if key else None
        self._sink: ByteSink = self._sealing or stream
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mindhold-backup")
        self._packing: deque[Future[bytes]] = deque()
        self._waiting = bytearray()
        self._parts: list[BackupPart] = []

    @property
    def parts(self) -> tuple[BackupPart, ...]:
        """Those that are ended."""
        return tuple(self._parts)

    def begin(self, mode: str, form: str) -> None:
        """A part; nothing is written to before."""
        self._frame(b"P", json.dumps({"mode": mode, "form": form}).encode())
        self._part = BackupPart(mode, form)
        self._sum, self._packed, self._size = hashlib.sha256(), hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        """Of the part. Raises OSError."""
        self._sum.update(data)
        self._size += len(data)
        self._waiting += data
        while len(self._waiting) >= _BLOCK:
            self._pack(bytes(self._waiting[:_BLOCK]))
            del self._waiting[:_BLOCK]

    def end(self, totals: Totals, *, lives: tuple[str, ...] = (), elsewhere: tuple[str, ...] = ()) -> None:
        """Of the part."""
        if self._waiting:
            self._pack(bytes(self._waiting))
            self._waiting.clear()
        while self._packing:
            self._put_block()
        done = replace(
            self._part,
            totals=totals,
            size=self._size,
            sha256=self._sum.hexdigest(),
            packed=self._packed.hexdigest(),
            lives=lives,
            elsewhere=elsewhere,
        )
        self._parts.append(done)
        self._frame(b"E", json.dumps(asdict(done)).encode())

    def finish(self) -> None:
        """The table of the parts; the stream stays open."""
        table = {"head": self._head.hex(), "parts": [asdict(part) for part in self._parts]}
        self._frame(b"T", json.dumps(table).encode())
        if self._sealing:
            self._sealing.close()

    def close(self) -> None:
        """Lets the threads go, however it ended."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _pack(self, block: bytes) -> None:
        self._packing.append(self._threads.submit(zlib.compress, block, _LEVEL))
        while len(self._packing) > _AHEAD:
            self._put_block()

    def _put_block(self) -> None:
        block = self._packing.popleft().result()
        self._packed.update(block)
        self._frame(b"D", block)

    def _frame(self, kind: bytes, data: bytes) -> None:
        self._sink.write(_FRAME.pack(kind, len(data)))
        self._sink.write(data)


def head_of(path: Path) -> BackupHead:
    """Raises OSError, Refused for another file or a newer form."""
    with path.open("rb") as stream:
        return _head(stream, path.name)[0]


@contextmanager
def open_backup(path: Path, passphrase: str | None) -> Iterator[BackupReader]:
    """Raises OSError, Refused without the right passphrase."""
    with path.open("rb") as stream:
        head, written = _head(stream, path.name)
        source: ByteSource = stream
        bound = hashlib.sha256(written).digest()
        if head.seal is not None:
            key = key_of(head.seal, passphrase, name=path.name)
            source = DecryptingReader(stream, key, bound=bound, name=path.name)
        yield BackupReader(source, head, path.name, bound=bound)


def read_through(path: Path, passphrase: str | None) -> tuple[BackupHead, tuple[BackupPart, ...]]:
    """Everything is decrypted, unpacked and summed; what is told of it is true. Raises OSError, Refused."""
    with open_backup(path, passphrase) as reader:
        for _, blocks in reader.parts():
            for _block in blocks:
                pass
        return reader.head, tuple(reader.table)


def _head(stream: BinaryIO, name: str) -> tuple[BackupHead, bytes]:
    try:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it begins otherwise")
        (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
        written = stream.read(min(length, _MOST_HEAD))
        said = json.loads(written)
        if said["format"] > FORMAT:
            raise Refused(
                f"{name} was written by a newer Mindhold ({said['program']}).", advice="Upgrade this one."
            )
        head = BackupHead(**{**said, "created": datetime.fromisoformat(said["created"])})
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise Refused(f"{name} is no backup: {error}.", advice="Choose another file.") from error
    return head, written


class BackupReader:
    """Reads one file, part after part. Raises Refused, wherever it finds that something isn't as it was written."""

    def __init__(self, source: ByteSource, head: BackupHead, name: str, *, bound: bytes) -> None:
        self._source = source
        self._bound = bound
        self._name = name
        self.head = head
        self.table: list[BackupPart] = []  # of what was read to its end

    def parts(self) -> Iterator[tuple[BackupPart, Iterator[bytes]]]:
        """Each with what is in it, which is to be read to its end; before that its mode and form alone are known."""
        while True:
            kind, data = self._next()
            if kind == b"T":
                break
            if kind != b"P":
                raise file_changed(self._name)
            said = self._read(data)
            part = BackupPart(str(said.get("mode")), str(said.get("form")))
            yield part, self._blocks(part)
        table = self._read(data)
        listed = [self._part(one) for one in table.get("parts", [])]
        if table.get("head") != self._bound.hex() or listed != self.table or self._source.read(1):
            raise file_changed(self._name)

    def _blocks(self, part: BackupPart) -> Iterator[bytes]:
        digest, packed, size = hashlib.sha256(), hashlib.sha256(), 0
        while True:
            kind, data = self._next()
            if kind != b"D":
                break
            try:
                block = zlib.decompress(data)
            except zlib.error as error:
                raise file_changed(self._name) from error
            digest.update(block)
            packed.update(data)
            size += len(block)
            yield block
        if kind != b"E":
            raise file_changed(self._name)
        done = self._part(self._read(data))
        found = replace(done, mode=part.mode, form=part.form, size=size, sha256=digest.hexdigest())
        if replace(found, packed=packed.hexdigest()) != done:
            raise file_changed(self._name)
        self.table.append(done)

    def _next(self) -> tuple[bytes, bytes]:
        head = self._source.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise file_changed(self._name)
        kind, length = _FRAME.unpack(head)
        if length > _MOST_FRAME:
            raise file_changed(self._name)
        data = self._source.read(length)
        if len(data) < length:
            raise file_changed(self._name)
        return kind, data

    def _read(self, data: bytes) -> dict[str, Any]:
        try:
            said = json.loads(data)
        except ValueError as error:
            raise file_changed(self._name) from error
        if not isinstance(said, dict):
            raise file_changed(self._name)
        return said

    def _part(self, said: dict[str, Any]) -> BackupPart:
        try:
            lists = {name: tuple(said[name]) for name in ("lives", "elsewhere")}
            return BackupPart(**{**said, **lists, "totals": Totals(**said["totals"])})
        except (KeyError, TypeError) as error:
            raise file_changed(self._name) from error
