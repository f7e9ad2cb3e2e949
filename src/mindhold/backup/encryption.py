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
MOST_COST = 1 << 20  # of a file that somebody else may have written: more memory than that isn't spent on it
_LENGTH = struct.Struct(">I")
_TAG = 16
_WORK = {"n": 1 << 17, "r": 8, "p": 1}


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """What a passphrase and a salt give; `check` tells a wrong passphrase without giving anything away."""

    secret: bytes
    check: str

    def __repr__(self) -> str:
        return "Key()"


def new_encryption(passphrase: str) -> tuple[dict[str, Any], EncryptionKey]:
    """What the file says of its seal, and the key. Raises InvalidInput for an empty passphrase."""
    if not passphrase:
        raise InvalidInput("The passphrase is empty.", advice="Give one that you will still know in a year.")
    salt = secrets.token_bytes(16)
    key = _derived(passphrase, salt, **_WORK)
    return {
        "cipher": CIPHER,
        "key": DERIVATION,
        **_WORK,
        "salt": salt.hex(),
        "check": key.check,
        "chunk": CHUNK,
    }, key


def key_of(seal: dict[str, Any], passphrase: str | None, *, name: str) -> EncryptionKey:
    """Raises Refused without a passphrase, for a wrong one, and for a seal that this program can't open."""
    if not passphrase:
        raise Refused(
            f"{name} is encrypted.",
            advice="Give its passphrase: --passphrase-file, or MINDHOLD_BACKUP_PASSPHRASE in the environment.",
        )
    try:
        known = (seal["cipher"], seal["key"]) == (CIPHER, DERIVATION)
        work = {part: int(seal[part]) for part in _WORK}
        salt, check = bytes.fromhex(seal["salt"]), str(seal["check"])
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{name} doesn't say how it is encrypted.", advice="Choose another backup.") from error
    if not known or work["n"] * work["r"] * work["p"] > MOST_COST * 8:
        raise Refused(f"{name} is encrypted in a way that this Mindhold doesn't know.", advice="Upgrade it.")
    key = _derived(passphrase, salt, **work)
    if not secrets.compare_digest(key.check, check):
        raise Refused(f"The passphrase is not that of {name}.", advice="Try again; nothing was changed.")
    return key


@lru_cache(
    maxsize=4
)  # what is written is read back: the half second is spent once; the passphrase is in memory anyway
def _derived(passphrase: str, salt: bytes, *, n: int, r: int, p: int) -> EncryptionKey:
    try:
        both = hashlib.scrypt(
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
    return EncryptionKey(both[:32], hashlib.sha256(b"mindhold backup " + both[32:]).hexdigest()[:32])


class EncryptingWriter:
    """Writes what it is given, encrypted, behind what the stream has already. `bound` is authenticated along with it."""

    def __init__(self, stream: BinaryIO, key: EncryptionKey, *, bound: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # for those who encrypt

        self._stream = stream
        self._cipher = AESGCM(key.secret)
        self._bound = bound
        self._waiting = bytearray()
        self._number = 0

    def write(self, data: bytes) -> None:
        """Raises OSError."""
        self._waiting += data
        while len(self._waiting) > CHUNK:  # one is always left, to be the last
            self._put(bytes(self._waiting[:CHUNK]), last=False)
            del self._waiting[:CHUNK]

    def close(self) -> None:
        """The last chunk; the stream stays open."""
        self._put(bytes(self._waiting), last=True)

    def _put(self, chunk: bytes, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number, last=last), chunk, self._bound)
        self._stream.write(_LENGTH.pack(len(sealed)) + sealed)
        self._number += 1


class DecryptingReader:
    """Reads what Sealing wrote. Raises Refused where something else stands there."""

    def __init__(self, stream: BinaryIO, key: EncryptionKey, *, bound: bytes, name: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._stream = stream
        self._cipher = AESGCM(key.secret)
        self._bound = bound
        self._name = name
        self._number = 0
        self._ready = b""
        self._ahead = stream.read(_LENGTH.size)

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        parts, wanted = [], size
        while wanted:
            if not self._ready and not self._fill():
                break
            parts.append(self._ready[:wanted])
            self._ready = self._ready[wanted:]
            wanted -= len(parts[-1])
        return b"".join(parts)

    def _fill(self) -> bool:
        from cryptography.exceptions import InvalidTag

        while not self._ready:
            if not self._ahead:
                return False
            if len(self._ahead) < _LENGTH.size:
                raise file_changed(self._name)
            (length,) = _LENGTH.unpack(self._ahead)
            if length > CHUNK + _TAG:
                raise file_changed(self._name)
            sealed = self._stream.read(length)
            self._ahead = self._stream.read(_LENGTH.size)
            try:
                nonce = _nonce(self._number, last=not self._ahead)
                self._ready = self._cipher.decrypt(nonce, sealed, self._bound)
            except InvalidTag as error:
                raise file_changed(self._name) from error
            self._number += 1
        return True


def file_changed(name: str) -> Refused:
    """For a file that isn't what was written."""
    return Refused(
        f"{name} is not what was written: it was changed or cut short.", advice="Choose another backup."
    )


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if last else b"\x00")
