"""Text that tries to instruct whoever reads it, as against people's own rules, which are memories."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from dataclasses import dataclass

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.signs import SIGNS


@dataclass(frozen=True, slots=True)
class Suspicion:
    """From 0.5 on the text belongs in quarantine. `reasons` name what was seen, strongest first."""

    score: float
    reasons: tuple[str, ...]


_TRIGGERS = tuple((trigger, place) for place, sign in enumerate(SIGNS) for trigger in sign.triggers)
_ASCII_TRIGGERS = tuple(pair for pair in _TRIGGERS if pair[0].isascii())
_OTHER_TRIGGERS = tuple(pair for pair in _TRIGGERS if not pair[0].isascii())

_ZERO_WIDTH = "\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e"
_INVISIBLE = Expression(f"[{_ZERO_WIDTH}\U000e0000-\U000e007f]")
_HIDDEN_RUN = Expression(
    "[\u200b-\u200f\u2060-\u2064\ufeff]{3,}|[\U000e0020-\U000e007e]{6,}(?!\U000e007f)|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u202d\u202e]"
)
_SPACES = Expression(r"[^\S\n ]+ *| {2,}")
_BLOB = Expression(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,4096}={0,2}(?![A-Za-z0-9+/=])")
_LOOKALIKES = str.maketrans("аеорсухіјѕԁοαεіІ’‘“”", "aeopcyxijsdoaeii''\"\"")


def suspicion(text: str) -> Suspicion:
    """How much the text looks like an instruction to its reader. Give it the text before cleaning: hiding counts."""
    weights = _weights(_folded(text))
    if not text.isascii() and _HIDDEN_RUN.search(text):
        weights["hidden-text"] = max(0.6, weights.get("hidden-text", 0.0))
    for blob in _BLOB.finditer(text):
        if any(weight >= 0.5 for weight in _weights(_folded(_decoded(blob[0]))).values()):
            weights["encoded-instructions"] = 0.8
    clear = 1.0
    for weight in weights.values():
        clear *= 1.0 - weight
    return Suspicion(
        round(1.0 - clear, 3), tuple(sorted(weights, key=lambda reason: (-weights[reason], reason)))
    )


def _weights(folded: str) -> dict[str, float]:
    places = {place for trigger, place in _ASCII_TRIGGERS if trigger in folded}
    if not folded.isascii():
        places.update([place for trigger, place in _OTHER_TRIGGERS if trigger in folded])
    weights: dict[str, float] = {}
    for sign in map(SIGNS.__getitem__, places):
        if weights.get(sign.reason, 0.0) < sign.weight and sign.pattern.search(folded):
            weights[sign.reason] = sign.weight
    return weights


def _folded(text: str) -> str:
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = text.lower()
    if not text.isascii() and re.search("[a-z]", text):
        text = text.translate(_LOOKALIKES)
    return _SPACES.sub(" ", text)


def _decoded(blob: str) -> str:
    try:
        return base64.b64decode(blob + "=" * (-len(blob) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
