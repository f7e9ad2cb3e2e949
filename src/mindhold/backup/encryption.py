"""Encrypts and decrypts a stream with AES-256-GCM in numbered chunks; the key is derived by scrypt."""

from __future__ import annotations

import hashlib
import secrets
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

from mindhold.model.errors import InvalidInput, Refused

CHUNK = 1 << 20
CIPHER, DERIVATION = "AES-256-GCM", "scrypt"
MOST_COST = 1 << 20  # for a file from elsewhere: it must not demand more memory
_LENGTH = struct.Struct(">I")
_TAG = 16
_WORK = {"n": 1 << 17, "r": 8, "p": 1}


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """The key of a passphrase and a salt. `check` reveals a wrong passphrase and nothing else."""

    secret: bytes
    check: str

    def __repr__(self) -> str:
        return "Key()"


def new_encryption(passphrase: str) -> tuple[dict[str, Any], EncryptionKey]:
    """The encryption header of a new file, and its key. Raises InvalidInput for an empty passphrase."""
    if not passphrase:
        raise InvalidInput("The passphrase is empty.", advice="Give one that you will still know in a year.")
    salt = secrets.token_bytes(16)
    key = _derive(passphrase, salt, **_WORK)
    return {
        "cipher": CIPHER,
        "key": DERIVATION,
        **_WORK,
        "salt": salt.hex(),
        "check": key.check,
        "chunk": CHUNK,
    }, key


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
