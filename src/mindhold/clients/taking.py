"""Takes what is ours out of a file that others changed since; the rest stays byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mindhold.clients.claude import ENV, HOOKS, STATUS_LINE, without_home, without_hooks, without_status_line
from mindhold.clients.files import bytes_of, json_of, told_of
from mindhold.clients.json_text import JsonText
from mindhold.clients.markers import without_markers
from mindhold.clients.mcp_entry import without_server, without_table
from mindhold.clients.notes import BLOCK, HOME, HOOK, SERVER, STATUS, TABLE, Notes
from mindhold.clients.toml_text import toml_of

Undo = Sequence[Mapping[str, Any]]
# What is looked for where nobody noted anything.
OF_SETTINGS: tuple[dict[str, Any], ...] = (
    {"do": HOOK, "path": [HOOKS]},
    {"do": STATUS, "path": [STATUS_LINE]},
    {"do": HOME, "path": [ENV], "if": HOOK},
)
OF_DOCUMENT: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": []},)
# Markers that somebody put there themselves: only what was written between them goes, unless there is nothing else.
EMPTIED: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": [], "stay": True},)


def of_server(*keys: str | int) -> tuple[dict[str, Any], ...]:
    """The same for a server's entry."""
    return ({"do": SERVER, "path": list(keys)},)


def of_table(*keys: str) -> tuple[dict[str, Any], ...]:
    """The same in TOML."""
    return ({"do": TABLE, "path": list(keys)},)


def is_by_looks(undo: Undo) -> bool:
    """Whether nobody noted how the file was before."""
    return not any("made" in note or "lead" in note for note in undo)


def taken_out(path: Path, content: bytes, undo: Undo) -> bytes:
    """Raises InvalidInput where the file can't be read as what it was."""
    kinds = {note["do"] for note in undo}
    if BLOCK in kinds:
        return without_markers(path, content, next(note for note in undo if note["do"] == BLOCK))
    if TABLE in kinds:
        return _without_tables(path, content, undo)
    document = json_of(path, content, comments=True)
    with told_of(path):
        left = _without_members(document, undo)
    return content if left.text == document.text else bytes_of(left.text, content)


def _without_members(document: JsonText, undo: Undo) -> JsonText:
    notes = Notes.of(undo)
    # who set the variable isn't known by its looks: it goes with hooks, and stays without
    hooked = without_hooks(document, notes).text != document.text
    for note in reversed(undo):
        if note["do"] == HOME:
            document = without_home(document, notes) if hooked or "if" not in note else document
        elif note["do"] == STATUS:
            document = without_status_line(document, notes)
        elif note["do"] == SERVER:
            document = without_server(document, tuple(note["path"]), notes)
    return without_hooks(document, notes) if any(note["do"] == HOOK for note in undo) else document


def _without_tables(path: Path, content: bytes, undo: Undo) -> bytes:
    text, _ = toml_of(path, content)
    for note in undo:
        text = without_table(path, text, tuple(note["path"]), lead=note.get("lead", ""))
    return bytes_of(text, content)
