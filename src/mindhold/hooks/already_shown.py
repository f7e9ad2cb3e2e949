"""Which memories a conversation was already shown, and marks that identify a message."""

from __future__ import annotations

import os
import time

from mindhold.hooks.files import (
    digest,
    hooks_path,
    make_hooks_folder,
    read_contents,
    remove,
    remove_older,
    write_all,
)
from mindhold.hooks.lease import try_lock

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable


SHOWN_FOLDER = "told"
_ENDING = ".txt"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LONGEST = 1 << 20
_LOCK_SECONDS, _PAUSE_SECONDS = 0.2, 0.005  # seconds; other hooks of the conversation are quick


def read_shown(home: str, conversation: str) -> frozenset[str]:
    """The ids of the memories that were shown; empty if nothing is recorded."""
    try:
        return _split_ids(read_contents(_path(home, conversation), _LONGEST))
    except OSError:
        return frozenset()


def claim_shown(home: str, conversation: str, ids: Iterable[str]) -> list[str]:
    """Return the ids that were not shown yet, and record them as shown. Raises OSError, and then nothing may be shown."""
    make_hooks_folder(home, SHOWN_FOLDER)
    descriptor = os.open(_path(home, conversation), _FLAGS, 0o600)
    try:
        _lock(descriptor)
        shown_ids = _split_ids(read_contents(_path(home, conversation), _LONGEST))
        new_ids = [
            memory_id
            for memory_id in dict.fromkeys(ids)
            if memory_id and memory_id not in shown_ids and "\n" not in memory_id
        ]
        if new_ids:
            write_all(
                descriptor,
                "".join(f"{memory_id}\n" for memory_id in new_ids).encode("utf-8", "surrogatepass"),
            )
        return new_ids
    finally:
        os.close(descriptor)


def reset_shown(home: str, conversation: str) -> None:
    """Forget what was shown: the conversation starts anew, or was compacted."""
    remove(_path(home, conversation))


def remove_old_shown(home: str) -> None:
    """Remove the records of conversations that were shown nothing for a week."""
    remove_older(hooks_path(home, SHOWN_FOLDER), _ENDING, 7 * 86_400.0)


def _path(home: str, conversation: str) -> str:
    return hooks_path(home, SHOWN_FOLDER, digest(conversation) + _ENDING)


def _split_ids(content: bytes) -> frozenset[str]:
    return frozenset(content.decode("utf-8", "replace").split("\n")) - {""}


def _lock(descriptor: int) -> None:
    """Lock for a short while only: showing a memory twice is better than never."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while not try_lock(descriptor) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


MARK_PREFIX = "said:"  # then the number of characters and a digest of them
COMPARED_CHARACTERS = 500  # characters at the start of a message, without white space


def message_mark(text: str) -> str:
    """A mark that identifies a message by its start; empty for an empty message."""
    plain = comparable_start(text)
    return f"{MARK_PREFIX}{len(plain)}:{digest(plain)}" if plain else ""


def comparable_start(text: str) -> str:
    """The characters to compare: white space is dropped because parts of a message may be joined in any way."""
    return "".join(text[: COMPARED_CHARACTERS * 20].split())[:COMPARED_CHARACTERS]


def begins_with_mark(text: str, mark: str) -> bool:
    """Whether the text starts with the message of the mark."""
    length, _, expected = mark.removeprefix(MARK_PREFIX).partition(":")
    plain = comparable_start(text)
    if not length.isdecimal() or len(plain) < int(length):
        return False
    return digest(plain[: int(length)]) == expected
