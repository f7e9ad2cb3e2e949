"""What is noted of each thing that is put into a file, so that it can be taken out again as if it had never been there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.clients.json_text import JsonText, Path, Put

HOOK, STATUS, HOME, SERVER, BLOCK, TABLE = "hook", "status", "home", "server", "block", "table"


@dataclass(frozen=True, slots=True)
class Notes:
    """Which containers were made for what was put in, and what stood in empty ones. `made` is None where nobody knows."""

    made: frozenset[Path] | None = None
    inner: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, undo: Iterable[Mapping[str, Any]]) -> Notes:
        """Of all that was put into one file."""
        notes = list(undo)
        known = [note["made"] for note in notes if "made" in note]
        inner = {tuple(where): text for note in reversed(notes) for where, text in note.get("inner", ())}
        return cls(frozenset(tuple(one) for made in known for one in made) if known else None, inner)


def noted(do: str, path: Path, put: Put) -> dict[str, Any]:
    """As it is kept in a file."""
    return {
        "do": do,
        "path": list(path),
        "made": [list(one) for one in put.made],
        "inner": [[list(where), text] for where, text in put.inner.items()],
    }


def joined(
    known: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Both; of the same thing put in twice, what the first time found counts."""
    kept: dict[str, dict[str, Any]] = {}
    for note in (*known, *new):
        key = f"{note['do']} {note.get('path')}"
        before = kept.get(key, {})
        both = {
            name: [*before.get(name, []), *note.get(name, [])]
            for name in ("made", "inner")
            if name in before or name in note
        }
        kept[key] = {**note, **before, **both}
    return tuple(kept.values())


def pruned(document: JsonText, notes: Notes, path: Path) -> JsonText:
    """Without the containers on the way there that are empty now and were made for us; all that are, if nobody knows."""
    for length in range(len(path), 0, -1):
        one = path[:length]
        if (notes.made is None or one in notes.made) and document.is_empty(one):
            document = JsonText(document.drop_member(one, inner=notes.inner), document.comments)
    return document
