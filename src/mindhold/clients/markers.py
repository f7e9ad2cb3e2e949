"""Markers in CLAUDE.md and its like: put in at the end, taken out with what stands between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindhold.clients.files import Change, read
from mindhold.clients.notes import BLOCK
from mindhold.model.errors import MarkersWrong
from mindhold.model.markers import END, START, find_place

_UTF8, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def markers_change(path: Path) -> Change:
    """The document with markers; as it is where it has them. Raises MarkersWrong."""
    before = read(path)
    data = before or b""
    if data.startswith(_UTF16):
        raise MarkersWrong(f"{path} is in UTF-16.", advice="Save it as UTF-8, which its readers expect.")
    if find_place(data, name=str(path)) is not None:
        return Change(path, before, before)
    eol = b"\r\n" if b"\r\n" in data else b"\n"
    empty = not data.removeprefix(_UTF8)
    ends = data.endswith(b"\n")
    lead = b"" if empty or data.endswith(eol * 2) else eol if ends else eol * 2
    tail = eol if empty or ends else b""
    after = data + lead + START.encode() + eol + END.encode() + tail
    note = {"do": BLOCK, "path": [], "lead": lead.decode()}
    return Change(path, before, after, (note,), ("markers for what is remembered",))


def without_markers(path: Path, data: bytes, note: Mapping[str, Any]) -> bytes:
    """Without the block; all else stays. `lead` in the note was put before it. Raises MarkersWrong."""
    place = find_place(data, name=str(path))
    if place is None:
        return data
    begin = data.rfind(b"\n", 0, max(0, place.start - 1)) + 1
    if begin == 0 and data.startswith(_UTF8):
        begin = len(_UTF8)
    line = data.find(b"\n", place.end)
    end = len(data) if line < 0 else line + 1
    if note.get("stay") and (data[:begin].removeprefix(_UTF8) + data[end:]).strip():
        return data[: place.start] + data[place.end :]
    lead = note.get("lead")
    known = lead.encode() if isinstance(lead, str) else _likely_lead(data[:begin], ended=line >= 0)
    kept = data[:begin]
    if known and kept.endswith(known):
        shorter = kept[: -len(known)]
        if end < len(data) and shorter and not shorter.endswith(b"\n"):
            shorter = kept[
                : len(kept) - len(known) // 2
            ]  # others wrote below: their line stays one of its own
        kept = shorter
    return kept + data[end:]


def _likely_lead(before: bytes, *, ended: bool) -> bytes:
    """Where nobody noted it."""
    eol = b"\r\n" if before.endswith(b"\r\n") else b"\n"
    if not before.endswith(eol * 2):
        return b""
    return eol if ended else eol * 2
