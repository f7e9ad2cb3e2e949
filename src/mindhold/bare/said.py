"""What a message is known by, without keeping a word of it."""

from __future__ import annotations

from mindhold.bare.digest import digest

BEFORE = "said:"  # so begins such a mark; then how many characters it is of, then a digest of these
COMPARED = 500  # characters at the beginning of a message, without white space


def mark_of(text: str) -> str:
    """Empty for an empty one."""
    plain = plain_of(text)
    return f"{BEFORE}{len(plain)}:{digest(plain)}" if plain else ""


def plain_of(text: str) -> str:
    """What is compared: pieces of a message may be joined in any way."""
    return "".join(text[: COMPARED * 20].split())[:COMPARED]


def begins(text: str, mark: str) -> bool:
    """Whether the text begins with what the mark is of."""
    length, _, wanted = mark.removeprefix(BEFORE).partition(":")
    plain = plain_of(text)
    if not length.isdecimal() or len(plain) < int(length):
        return False
    return digest(plain[: int(length)]) == wanted
