"""The key to Anthropic where other programs keep it, for those who chose to ask Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mindhold.settings.llm import LlmSettings, fallbacks, origin_of

ANTHROPIC_KEY = "llm.anthropic_key"
ANTHROPIC = "https://api.anthropic.com"  # whose key it is
OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")  # where whoever listens could read the file anyway
PLACES = (".config/anthropic/api_key", ".anthropic/api_key")  # in the person's own folder; the first wins
_LONGEST = 10_000  # bytes; what is longer is no key


class FoundKey(NamedTuple):
    """A key, and the file that it stands in."""

    value: str
    source: str

    def __repr__(self) -> str:
        return f"FoundKey(source={self.source!r})"


def wants_anthropic(chosen: LlmSettings) -> bool:
    """Whether Anthropic is asked at all: a secret that nobody needs is not read, nor one that would go to somebody else."""
    if chosen.provider == "anthropic":
        return _is_theirs(chosen.base_url) or origin_of(chosen.base_url)[1] in OF_THIS_MACHINE
    return any(
        rung.provider == "anthropic" and _is_theirs(rung.address) for rung in fallbacks(chosen.fallback)
    )


def _is_theirs(address: str) -> bool:
    return not address or origin_of(address) == origin_of(ANTHROPIC)


def kept_key(environ: Mapping[str, str]) -> FoundKey | None:
    """In the first of the places that has one; what can't be read, or is empty, is passed over."""
    own = environ.get("HOME") or environ.get("USERPROFILE")
    for place in PLACES if own else ():
        path = Path(own or "", place)
        try:
            if not path.is_file():  # a pipe would never end
                continue
            with path.open("rb") as file:
                text = file.read(_LONGEST + 1).decode("utf-8-sig").strip()
        except (OSError, ValueError):
            continue
        if text and len(text) <= _LONGEST and len(text.split()) == 1:
            return FoundKey(text, str(path))
    return None
