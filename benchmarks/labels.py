"""What people marked in conversations as worth keeping, and whether what was picked out of them is among it.

`extraction_labels.json` has no sentence of a conversation: a file's name, lines, kinds and a few telling words, of which one is
as good as another between bars. `kind` is the best, `also` has those that are right as well. Of kind "none" are lines that are
tempting and not worth keeping; `added` are labels that were overlooked at first and found by looking at what was picked out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABELS = Path(__file__).resolve().parent / "extraction_labels.json"
NONE = "none"
CLOSE = 3  # lines between what is cited and where it was marked
ENOUGH = 0.5  # of the telling words, on such a line; elsewhere all of them


@dataclass(frozen=True, slots=True)
class Label:
    """Something worth keeping, or of kind "none" something that isn't."""

    file: str
    lines: tuple[int, ...]
    kinds: tuple[str, ...]  # the best first
    about: tuple[str, ...]
    added: bool = False

    @property
    def kind(self) -> str:
        return self.kinds[0]


@dataclass(frozen=True, slots=True)
class Picked:
    """What an extractor picked out, with the line that it cites."""

    file: str
    line: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """On one thing picked out. `label` is the one it fits best; None where it fits none. `right`: by its kind too."""

    picked: Picked
    label: Label | None
    right: bool
    found: tuple[int, ...] = ()  # places in the list of labels that it says, by kind too


def read_labels(path: Path = LABELS) -> list[Label]:
    return [_label(each) for each in json.loads(path.read_text(encoding="utf-8"))]


def _label(each: dict[str, Any]) -> Label:
    return Label(
        each["file"],
        (each["line"], *each.get("lines", ())),
        (each["kind"], *each.get("also", ())),
        tuple(each["about"]),
        bool(each.get("added")),
    )


def mentioned(about: Sequence[str], content: str) -> float:
    """Which share of the telling words a text has, each from its beginning on: "conflict" is in "conflicts"."""
    text = " ".join(content.casefold().split())
    return sum(any(_has(text, word) for word in words.split("|")) for words in about) / max(1, len(about))


def _has(text: str, word: str) -> bool:
    behind = r"(?!\d)" if word[-1].isdigit() else ""
    return re.search(r"(?<![a-z0-9])" + re.escape(word) + behind, text) is not None


def judge(picked: Sequence[Picked], labels: Sequence[Label]) -> list[Verdict]:
    return [_verdict(one, labels) for one in picked]


def _verdict(picked: Picked, labels: Sequence[Label]) -> Verdict:
    good, tempting, tempted = dict[int, tuple[bool, bool, float, int]](), None, 0.0
    for place, label in enumerate(labels):
        if label.file != picked.file:
            continue
        share = mentioned(label.about, picked.content)
        apart = min(abs(line - picked.line) for line in label.lines)
        if label.kind == NONE:
            if apart == 0 and share >= ENOUGH and share > tempted:
                tempting, tempted = label, share
        elif (apart <= CLOSE and share >= ENOUGH) or (share == 1.0 and _telling(label.about)):
            good[place] = (picked.kind in label.kinds, apart <= CLOSE, share, -apart)
    if tempting and not any(close and share >= tempted for _, close, share, _ in good.values()):
        return Verdict(picked, tempting, right=False)
    if not good:
        return Verdict(picked, None, right=False)
    near = {
        place: marks for place, marks in good.items() if marks[1]
    }  # what else the words stand for counts less
    best = max(near or good, key=lambda place: good[place])
    said = tuple(
        place for place, (kind, _, share, _) in good.items() if kind and (place == best or share == 1.0)
    )
    return Verdict(picked, labels[best], right=good[best][0], found=said)


def _telling(about: Sequence[str]) -> bool:
    """Enough to know it by, on whatever line: several words, or one that is a name."""
    return len(about) > 1 or not about[0].isalpha()
