"""The format of a backup file: a clear header, parts of JSON lines in compressed blocks with checksums, a table of contents; encrypted on request."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
import zlib
from base64 import b64decode, b64encode
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from mindhold import __version__
from mindhold.memories.export import (
    JsonObject,
    link_from,
    memory_from,
    record_line,
    scope_from,
    version_from,
)
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import Link, Memory, Version, checksum_part, format_checksum
from mindhold.model.scope import Scope
from mindhold.ports.backend import Cursor, Record, SnapshotItem, SnapshotRemoval, Totals

CHUNK = 1 << 20
CIPHER, DERIVATION = "AES-256-GCM", "scrypt"
MOST_COST = 1 << 20  # for a file from elsewhere: it must not demand more memory
_LENGTH = struct.Struct(">I")
_TAG = 16
_WORK = {"n": 1 << 17, "r": 8, "p": 1}


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """The key of a passphrase and a salt. `check` reveals a wrong passphrase and nothing else."""

    secret: bytes = field(repr=False)
    check: str = field(repr=False)


def new_encryption(passphrase: str) -> tuple[dict[str, Any], EncryptionKey]:
    """The encryption header of a new file, and its key. Raises InvalidInput for an empty passphrase."""
    if not passphrase:
        raise InvalidInput("The passphrase is empty.", advice="Give one that you will still know in a year.")
    salt = secrets.token_bytes(16)
    key = _derive(passphrase, salt, **_WORK)
    header = {
        "cipher": CIPHER,
        "key": DERIVATION,
        **_WORK,
        "salt": salt.hex(),
        "check": key.check,
        "chunk": CHUNK,
    }
    return header, key


def key_of(header: dict[str, Any], passphrase: str | None, *, name: str) -> EncryptionKey:
    """The key of an encrypted file. Raises Refused without a passphrase, for a wrong one, or an unknown encryption."""
    if not passphrase:
        raise Refused(
            f"{name} is encrypted.",
            advice="Give its passphrase: --passphrase-file, or MINDHOLD_BACKUP_PASSPHRASE in the environment.",
        )
    try:
        supported = (header["cipher"], header["key"]) == (CIPHER, DERIVATION)
        work = {part: int(header[part]) for part in _WORK}
        salt, check = bytes.fromhex(header["salt"]), str(header["check"])
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{name} doesn't say how it is encrypted.", advice="Choose another backup.") from error
    if not supported or work["n"] * work["r"] * work["p"] > MOST_COST * 8:
        raise Refused(f"{name} is encrypted in a way that this Mindhold doesn't know.", advice="Upgrade it.")
    key = _derive(passphrase, salt, **work)
    if not secrets.compare_digest(key.check, check):
        raise Refused(f"The passphrase is not that of {name}.", advice="Try again; nothing was changed.")
    return key


@lru_cache(maxsize=4)  # reading back what was written needs the key again: the half second is spent once
def _derive(passphrase: str, salt: bytes, *, n: int, r: int, p: int) -> EncryptionKey:
    try:
        derived = hashlib.scrypt(
            passphrase.encode("utf-8", "surrogatepass"),
            salt=salt,
            n=n,
            r=r,
            p=p,
            maxmem=256 * n * r,
            dklen=64,
        )
    except ValueError as error:
        raise Refused("The backup's key can't be made as the file says.", advice="Choose another.") from error
    return EncryptionKey(derived[:32], hashlib.sha256(b"mindhold backup " + derived[32:]).hexdigest()[:32])


class EncryptingWriter:
    """Encrypts what is written to it, after what the stream has already. `bound` is authenticated with it."""

    def __init__(self, stream: BinaryIO, key: EncryptionKey, *, bound: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # only needed for encryption

        self._stream = stream
        self._cipher = AESGCM(key.secret)
        self._bound = bound
        self._buffer = bytearray()
        self._number = 0

    def write(self, data: bytes) -> None:
        """Encrypt and write. Raises OSError."""
        self._buffer += data
        while len(self._buffer) > CHUNK:  # one chunk is always left, to be the last
            self._put(bytes(self._buffer[:CHUNK]), last=False)
            del self._buffer[:CHUNK]

    def close(self) -> None:
        """Write the last chunk; the stream stays open."""
        self._put(bytes(self._buffer), last=True)

    def _put(self, chunk: bytes, *, last: bool) -> None:
        encrypted = self._cipher.encrypt(_nonce(self._number, last=last), chunk, self._bound)
        self._stream.write(_LENGTH.pack(len(encrypted)) + encrypted)
        self._number += 1


class DecryptingReader:
    """Reads what EncryptingWriter wrote. Raises Refused if the file was changed."""

    def __init__(self, stream: BinaryIO, key: EncryptionKey, *, bound: bytes, name: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._stream = stream
        self._cipher = AESGCM(key.secret)
        self._bound = bound
        self._name = name
        self._number = 0
        self._ready = b""
        self._next_length = stream.read(_LENGTH.size)

    def read(self, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        parts, missing = [], size
        while missing:
            if not self._ready and not self._fill():
                break
            parts.append(self._ready[:missing])
            self._ready = self._ready[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _fill(self) -> bool:
        from cryptography.exceptions import InvalidTag

        while not self._ready:
            if not self._next_length:
                return False
            if len(self._next_length) < _LENGTH.size:
                raise file_changed(self._name)
            (length,) = _LENGTH.unpack(self._next_length)
            if length > CHUNK + _TAG:
                raise file_changed(self._name)
            encrypted = self._stream.read(length)
            self._next_length = self._stream.read(_LENGTH.size)
            try:
                nonce = _nonce(self._number, last=not self._next_length)
                self._ready = self._cipher.decrypt(nonce, encrypted, self._bound)
            except InvalidTag as error:
                raise file_changed(self._name) from error
            self._number += 1
        return True


def file_changed(name: str) -> Refused:
    """The error for a file that was changed or truncated."""
    return Refused(
        f"{name} is not what was written: it was changed or cut short.", advice="Choose another backup."
    )


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if last else b"\x00")


BATCH = 500
COUNTS = ("memories", "vectors", "versions", "links", "scopes", "jobs", "entries", "cursors")  # of Totals
_NUMBERS = "<f2"  # as precise as the stores
_FILE_NAMES = {"namespace": "drawer"}  # fields that have another name in the file
_TIMES = {"job": ("created", "due", "lease_until", "finished"), "entry": ("created", "expires")}


class RowCounter:
    """Counts rows of a snapshot; removals are subtracted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._content = 0
        self._scopes: set[str] = set()
        # By id: its number in the content sum, and whether it has a vector.
        self._records: dict[str, tuple[int, bool]] = {}

    def add(self, items: Iterable[SnapshotItem]) -> None:
        """Add rows in the order of the snapshot."""
        for item in items:
            if isinstance(item, Record):
                number = checksum_part(item.memory.id, item.memory.content_hash)
                self._records[item.memory.id] = number, item.vector is not None
                self._content += number
            elif isinstance(item, Scope):
                self._scopes.add(item.name)
            elif isinstance(item, SnapshotRemoval):
                self._scopes.discard(item.scope)
                self._content -= self._records.pop(item.memory_id, (0, False))[0]
            else:
                self._counts[type(item).__name__] += 1

    @property
    def totals(self) -> Totals:
        """The totals so far."""
        count = self._counts
        return Totals(
            memories=len(self._records),
            vectors=sum(vector for _, vector in self._records.values()),
            versions=count["Version"],
            links=count["Link"],
            scopes=len(self._scopes),
            jobs=count["Job"],
            entries=count["Entry"],
            cursors=count["Cursor"],
            content=format_checksum(self._content),
        )


def encode_rows(batch: Sequence[SnapshotItem]) -> bytes:
    """The rows as JSON lines."""
    lines = (json.dumps(_to_json(item), ensure_ascii=False, separators=(",", ":")) for item in batch)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def decode_rows(blocks: Iterable[bytes], *, now: datetime) -> Iterator[list[SnapshotItem]]:
    """Decode rows in batches. Raises Refused for an unknown line."""
    batch: list[SnapshotItem] = []
    for number, line in enumerate(split_lines(blocks), 1):
        try:
            batch.append(_parse_row(json.loads(line), now=now))
        except (KeyError, ValueError, TypeError) as error:
            message = f"Line {number} of the backup is none that this Mindhold knows: {error}."
            raise Refused(message[:300], advice="Upgrade Mindhold, or choose another backup.") from error
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def split_lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Split blocks that end anywhere into text lines."""
    tail = b""
    for block in blocks:
        *complete, tail = (tail + block).split(b"\n")
        for line in complete:
            yield line.decode("utf-8", "surrogatepass")
    if tail:
        yield tail.decode("utf-8", "surrogatepass")


def _to_json(item: SnapshotItem) -> JsonObject:
    if isinstance(item, Record):
        line = record_line(item.memory)
        if item.vector is not None:
            numbers = np.asarray(item.vector, dtype=_NUMBERS).tobytes()
            line |= {"embedded_by": item.memory.embedded_by, "vector": b64encode(numbers).decode("ascii")}
        return line
    if isinstance(item, Version | Link | Scope):
        return record_line(item)
    if isinstance(item, SnapshotRemoval):
        return {"type": "gone", "id": item.memory_id, "scope": item.scope}
    if isinstance(item, Cursor):
        return {"type": "cursor", "name": item.name, "value": item.value}
    kind = "job" if isinstance(item, Job) else "entry"
    fields = {name: _plain(getattr(item, name)) for name in item.__dataclass_fields__}
    return {"type": kind, **{_FILE_NAMES.get(name, name): value for name, value in fields.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _parse_row(line: JsonObject, *, now: datetime) -> SnapshotItem:
    kind = line.pop("type")
    if kind == "memory":
        vector = line.pop("vector", None)
        memory: Memory = memory_from(line, now=now)
        return Record(memory, None if vector is None else _parse_vector(vector))
    if kind == "version":
        return version_from(line)
    if kind == "link":
        return link_from(line)
    if kind == "scope":
        return scope_from(line)
    if kind == "gone":
        return SnapshotRemoval(line["id"], line["scope"])
    if kind == "cursor":
        return Cursor(line["name"], line["value"])
    for name in _TIMES[kind]:
        if line.get(name) is not None:
            line[name] = datetime.fromisoformat(line[name])
    if kind == "job":
        return Job(**{**line, "state": JobState(line["state"])})
    return Entry(namespace=line.pop(_FILE_NAMES["namespace"]), **line)


def _parse_vector(text: str) -> Any:
    return np.frombuffer(b64decode(text), dtype=_NUMBERS).astype(np.float32)


FORMAT = 1
ENDING = ".backup"
ROWS, EXPORT = "rows", "export"  # forms that every store, or an import, can read
_MAGIC = b"MINDHOLD BACKUP\n"
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
