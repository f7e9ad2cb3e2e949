"""Adding up what a store holds, in whatever order it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_BYTES = 16
_MOST = 1 << (8 * _BYTES)


def content_sum(pairs: Iterable[tuple[str, str]]) -> tuple[int, str]:
    """How many ids with their content hashes there are, and a sum that is the same in every order."""
    count = total = 0
    for memory_id, content_hash in pairs:
        count += 1
        total += content_number(memory_id, content_hash)
    return count, written(total)


def content_number(memory_id: str, content_hash: str) -> int:
    """What one memory adds to the sum."""
    said = f"{memory_id} {content_hash}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=_BYTES).digest(), "big")


def written(total: int) -> str:
    """The sum as it is compared."""
    return f"{total % _MOST:032x}"
