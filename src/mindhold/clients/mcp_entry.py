"""The entry of the MCP server, in JSON and in TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindhold.clients.files import Change, bytes_of, json_of, read, told_of
from mindhold.clients.json_text import JsonText
from mindhold.clients.json_text import Path as Keys
from mindhold.clients.notes import SERVER, TABLE, Notes, noted, pruned
from mindhold.clients.program import VARIABLE, Call, Program, call_of, called_alike
from mindhold.clients.toml_text import eol_of, parsed, toml_entry, toml_of, with_values, without
from mindhold.model.errors import Conflict, InvalidInput

NAME = "mindhold"


def server_entry(
    program: Program, *, toolsets: str | None, home: str | None = None, typed: bool = True
) -> dict[str, Any]:
    """What starts the server. `home` is noted where it isn't the usual one."""
    words = program.calling("mcp", *(("--toolsets", toolsets) if toolsets else ()))
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": program.command, "args": words}
    return entry | ({"env": {VARIABLE: home}} if home else {})


def our_server(value: Any) -> Call | None:
    """The call, if it starts `mindhold mcp`, by whichever path."""
    call = call_of(value.get("command"), value.get("args")) if isinstance(value, dict) else None
    return call if call is not None and call.words[:1] == ("mcp",) else None


def is_our_server(value: Any) -> bool:
    """Whether it does."""
    return our_server(value) is not None


def json_change(path: Path, keys: Keys, entry: dict[str, Any], *, comments: bool = False) -> Change:
    """The entry at its place; one that is ours is brought up to date. Raises InvalidInput, Conflict."""
    before = read(path)
    document = json_of(path, before, comments=comments)
    with told_of(path):
        known = document.get(keys)
        if known is None:
            put = document.put_member(keys, entry)
            document, note = JsonText(put.text, comments), noted(SERVER, keys, put)
        else:
            differing = _differing(path, ".".join(map(str, keys)), known, entry)
            if not differing:
                return Change(path, before, before)
            for names, value in differing.items():
                document = JsonText(document.put_member((*keys, *names), value).text, comments)
            note = {"do": SERVER, "path": list(keys)}
    return Change(path, before, bytes_of(document.text, before), (note,), (f"server {keys[-1]}",))


def _differing(path: Path, name: str, known: Any, entry: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """What is to be another in an entry of ours, by the names that lead there; what others added stays. Raises Conflict."""
    call = our_server(known)
    if call is None:
        raise Conflict(
            f"{path} has {name} already, and it doesn't start `mindhold mcp`.",
            advice="If it is another way to Mindhold, keep it, and say --no-mcp with init; else take it out first.",
        )
    command, arguments = called_alike(call, entry["command"], entry["args"])
    wanted = {**entry, "command": command, "args": arguments}
    differing: dict[tuple[str, ...], Any] = {}
    for member, value in wanted.items():
        if isinstance(value, dict) and isinstance(known.get(member), dict):
            within = known[member]
            differing |= {(member, key): one for key, one in value.items() if within.get(key) != one}
        elif known.get(member) != value:
            differing[member,] = value
    return differing


def without_server(document: JsonText, keys: Keys, notes: Notes) -> JsonText:
    """Without the entry, if it is ours."""
    if not is_our_server(document.get(keys)):
        return document
    text = document.drop_member(keys, inner=notes.inner)
    return pruned(JsonText(text, document.comments), notes, keys[:-1])


def toml_change(path: Path, table: tuple[str, str], entry: dict[str, Any]) -> Change:
    """The table, put last; one that is ours is brought up to date where it stands. Raises InvalidInput, Conflict."""
    before = read(path)
    text, value = toml_of(path, before)
    outer = value.get(table[0], {})
    if not isinstance(outer, dict):
        raise InvalidInput(
            f"{path}: {table[0]} should be a table.", advice="Correct it; nothing was written."
        )
    known = outer.get(table[1])
    note: dict[str, Any] = {"do": TABLE, "path": list(table)}
    if known is None:
        note["lead"] = lead = _lead(text)
        after, expected = text + lead + toml_entry(table, entry, eol=eol_of(text)), entry
    else:
        differing = _differing(path, ".".join(table), known, entry)
        if not differing:
            return Change(path, before, before)
        expected = _merged(known, differing)
        after = with_values(text, table, differing)
    if parsed(after) != {**value, table[0]: {**outer, table[1]: expected}}:
        raise InvalidInput(
            f"{path} has {table[0]} in a form that can't be added to.",
            advice="Add by hand what `mindhold connect codex --print` shows; nothing was written.",
        )
    return Change(path, before, bytes_of(after, before), (note,), (f"server {table[1]}",))


def _merged(known: dict[str, Any], differing: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    merged = dict(known)
    for names, value in differing.items():
        merged[names[0]] = value if len(names) == 1 else {**merged[names[0]], names[1]: value}
    return merged


def _lead(text: str) -> str:
    """What parts the table from what stands before it."""
    eol = eol_of(text)
    return "" if not text or text.endswith(eol * 2) else eol if text.endswith("\n") else eol * 2


def without_table(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """Without the table and those below it, if it is ours. Raises InvalidInput where it stands in another form."""
    outer = (parsed(text) or {}).get(table[0])
    if not isinstance(outer, dict) or not is_our_server(outer.get(table[1])):
        return text
    return without(path, text, table, lead=lead)
