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
ROWS, EXPORT = "rows", "export"  # forms that every store, or an import, can read
_MAGIC = b"MINDHOLD BACKUP\n"
_LENGTH = struct.Struct(">I")
_FRAME = struct.Struct(">cI")
_BLOCK = 1 << 20
_LEVEL = 1  # three quarters of the best compression in a tenth of the time
_THREADS = 4
_AHEAD = 2 * _THREADS
_MOST_HEAD = 1 << 16
_MOST_FRAME = 1 << 28


@dataclass(frozen=True, slots=True)
class BackupHead:
    """The unencrypted header of a backup."""

    created: datetime
    home: str  # the mode of the main store
    program: str = __version__
    format: int = FORMAT
    seal: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BackupPart:
    """The part of one store. `lives` are the scopes of a secondary store; `elsewhere` are scopes that the main store only names."""

    mode: str
    form: str
    totals: Totals = field(default_factory=Totals)
    size: int = 0
    sha256: str = ""
    packed: str = ""  # checksum of the compressed blocks, some bits of which don't matter to their content
    lives: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


class ByteSink(Protocol):
    """A stream to write to."""

    def write(self, data: bytes, /) -> object: ...


class ByteSource(Protocol):
    """A stream to read from; returns fewer bytes only at the end."""

    def read(self, size: int, /) -> bytes: ...


class BackupWriter:
    """Writes a backup file, part after part. Threads compress the blocks; they are written in order."""

    def __init__(self, stream: BinaryIO, head: BackupHead, passphrase: str | None) -> None:
        encryption, key = new_encryption(passphrase) if passphrase else (None, None)
        fields = {**asdict(head), "created": head.created.isoformat(), "seal": encryption}
        header = json.dumps(fields).encode()
        stream.write(_MAGIC + _LENGTH.pack(len(header)) + header)
        self._head = hashlib.sha256(header).digest()
        self._encryption = EncryptingWriter(stream, key, bound=self._head) if key else None
        self._sink: ByteSink = self._encryption or stream
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mindhold-backup")
        self._compressing: deque[Future[bytes]] = deque()
        self._buffer = bytearray()
        self._parts: list[BackupPart] = []

    @property
    def parts(self) -> tuple[BackupPart, ...]:
        """The finished parts."""
        return tuple(self._parts)

    def begin(self, mode: str, form: str) -> None:
        """Start a part."""
        self._frame(b"P", json.dumps({"mode": mode, "form": form}).encode())
        self._part = BackupPart(mode, form)
        self._sum, self._packed, self._size = hashlib.sha256(), hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        """Write data of the current part. Raises OSError."""
        self._sum.update(data)
        self._size += len(data)
        self._buffer += data
        while len(self._buffer) >= _BLOCK:
            self._pack(bytes(self._buffer[:_BLOCK]))
            del self._buffer[:_BLOCK]

    def end(self, totals: Totals, *, lives: tuple[str, ...] = (), elsewhere: tuple[str, ...] = ()) -> None:
        """Finish the current part."""
        if self._buffer:
            self._pack(bytes(self._buffer))
            self._buffer.clear()
        while self._compressing:
            self._put_block()
        part = replace(
            self._part,
            totals=totals,
            size=self._size,
            sha256=self._sum.hexdigest(),
            packed=self._packed.hexdigest(),
            lives=lives,
            elsewhere=elsewhere,
        )
        self._parts.append(part)
        self._frame(b"E", json.dumps(asdict(part)).encode())

    def finish(self) -> None:
        """Write the table of contents; the stream stays open."""
        table = {"head": self._head.hex(), "parts": [asdict(part) for part in self._parts]}
        self._frame(b"T", json.dumps(table).encode())
        if self._encryption:
            self._encryption.close()

    def close(self) -> None:
        """Stop the threads, also after an error."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _pack(self, block: bytes) -> None:
        self._compressing.append(self._threads.submit(zlib.compress, block, _LEVEL))
        while len(self._compressing) > _AHEAD:
            self._put_block()

    def _put_block(self) -> None:
        block = self._compressing.popleft().result()
        self._packed.update(block)
        self._frame(b"D", block)

    def _frame(self, kind: bytes, data: bytes) -> None:
        self._sink.write(_FRAME.pack(kind, len(data)))
        self._sink.write(data)


def read_head(path: Path) -> BackupHead:
    """Read the header. Raises OSError, or Refused for another or newer format."""
    with path.open("rb") as stream:
        return _read_head(stream, path.name)[0]


@contextmanager
def open_backup(path: Path, passphrase: str | None) -> Iterator[BackupReader]:
    """Open a backup for reading. Raises OSError, or Refused without the right passphrase."""
    with path.open("rb") as stream:
        head, header = _read_head(stream, path.name)
        source: ByteSource = stream
        bound = hashlib.sha256(header).digest()
        if head.seal is not None:
            key = key_of(head.seal, passphrase, name=path.name)
            source = DecryptingReader(stream, key, bound=bound, name=path.name)
        yield BackupReader(source, head, path.name, bound=bound)


def verify_file(path: Path, passphrase: str | None) -> tuple[BackupHead, tuple[BackupPart, ...]]:
    """Decrypt, unpack and check the whole file; return its verified header and parts. Raises OSError, Refused."""
    with open_backup(path, passphrase) as reader:
        for _, blocks in reader.parts():
            for _block in blocks:
                pass
        return reader.head, tuple(reader.table)


def _read_head(stream: BinaryIO, name: str) -> tuple[BackupHead, bytes]:
    try:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it begins otherwise")
        (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
        header = stream.read(min(length, _MOST_HEAD))
        fields = json.loads(header)
        if fields["format"] > FORMAT:
            raise Refused(
                f"{name} was written by a newer Mindhold ({fields['program']}).", advice="Upgrade this one."
            )
        head = BackupHead(**{**fields, "created": datetime.fromisoformat(fields["created"])})
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise Refused(f"{name} is no backup: {error}.", advice="Choose another file.") from error
    return head, header


class BackupReader:
    """Reads a backup file, part after part. Raises Refused wherever the file was changed."""

    def __init__(self, source: ByteSource, head: BackupHead, name: str, *, bound: bytes) -> None:
        self._source = source
        self._bound = bound
        self._name = name
        self.head = head
        self.table: list[BackupPart] = []  # of the parts that were read to the end

    def parts(self) -> Iterator[tuple[BackupPart, Iterator[bytes]]]:
        """Each part with its blocks, which must be read to the end. Before that, only its mode and form are known."""
        while True:
            kind, data = self._next()
            if kind == b"T":
                break
            if kind != b"P":
                raise file_changed(self._name)
            fields = self._parse_object(data)
            part = BackupPart(str(fields.get("mode")), str(fields.get("form")))
            yield part, self._blocks(part)
        table = self._parse_object(data)
        parts_listed = [self._parse_part(fields_) for fields_ in table.get("parts", [])]
        if table.get("head") != self._bound.hex() or parts_listed != self.table or self._source.read(1):
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
        part_read = self._parse_part(self._parse_object(data))
        expected = replace(part_read, mode=part.mode, form=part.form, size=size, sha256=digest.hexdigest())
        if replace(expected, packed=packed.hexdigest()) != part_read:
            raise file_changed(self._name)
        self.table.append(part_read)

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

    def _parse_object(self, data: bytes) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except ValueError as error:
            raise file_changed(self._name) from error
        if not isinstance(value, dict):
            raise file_changed(self._name)
        return value

    def _parse_part(self, fields: dict[str, Any]) -> BackupPart:
        try:
            lists = {name: tuple(fields[name]) for name in ("lives", "elsewhere")}
            return BackupPart(**{**fields, **lists, "totals": Totals(**fields["totals"])})
        except (KeyError, TypeError) as error:
            raise file_changed(self._name) from error
