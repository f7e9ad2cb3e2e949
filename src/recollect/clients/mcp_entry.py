"""The entry of the MCP server, in JSON and in TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recollect.clients.files import Change, bytes_of, json_of, read, told_of
from recollect.clients.json_text import JsonText
from recollect.clients.json_text import Path as Keys
from recollect.clients.notes import SERVER, TABLE, Notes, noted, pruned
from recollect.clients.program import VARIABLE, Program, called_with
from recollect.model.errors import Conflict, InvalidInput

NAME = "recollect"
_UTF8 = b"\xef\xbb\xbf"
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def server_entry(
    program: Program, *, toolsets: str | None, home: str | None = None, typed: bool = True
) -> dict[str, Any]:
    """What starts the server. `home` is noted where it isn't the usual one."""
    words = program.calling("mcp", *(("--toolsets", toolsets) if toolsets else ()))
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": program.command, "args": words}
    return entry | ({"env": {VARIABLE: home}} if home else {})


def is_our_server(value: Any) -> bool:
    """Whether it starts `recollect mcp`, by whichever path."""
    words = called_with(value.get("command"), value.get("args")) if isinstance(value, dict) else None
    return words is not None and words[:1] == ["mcp"]


def json_change(path: Path, keys: Keys, entry: dict[str, Any], *, comments: bool = False) -> Change:
    """The entry at its place; one that is ours is brought up to date. Raises InvalidInput, Conflict."""
    before = read(path)
    document = json_of(path, before, comments=comments)
    with told_of(path):
        known = document.get(keys)
        if known is not None and not is_our_server(known):
            raise _taken(path, ".".join(map(str, keys)))
        if known == entry:
            return Change(path, before, before)
        if known is not None and set(known) - set(entry):  # what others added stays
            for name, value in entry.items():
                if known.get(name) != value:
                    document = JsonText(document.put_member((*keys, name), value).text, comments)
            note: dict[str, Any] = {"do": SERVER, "path": list(keys)}
        else:
            put = document.put_member(keys, entry)
            document, note = JsonText(put.text, comments), noted(SERVER, keys, put)
    after = bytes_of(document.text, before)
    return Change(path, before, after, (note,) if after != before else (), (f"server {keys[-1]}",))


def without_server(document: JsonText, keys: Keys, notes: Notes) -> JsonText:
    """Without the entry, if it is ours."""
    if not is_our_server(document.get(keys)):
        return document
    text = document.drop_member(keys, inner=notes.inner)
    return pruned(JsonText(text, document.comments), notes, keys[:-1])


def toml_entry(table: Sequence[str], entry: dict[str, Any], *, eol: str = "\n") -> str:
    """The entry as a table."""
    lines = [f"[{'.'.join(table)}]"]
    for name, value in entry.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items())
            lines.append(f"{name} = {{ {inner} }}")
        else:
            lines.append(f"{name} = {_toml(value)}")
    return "".join(line + eol for line in lines)


def toml_change(path: Path, table: tuple[str, str], entry: dict[str, Any]) -> Change:
    """The table, put last; one that is ours is replaced. Raises InvalidInput, Conflict."""
    before = read(path)
    text, value = _toml_of(path, before)
    outer = value.get(table[0], {})
    known = outer.get(table[1]) if isinstance(outer, dict) else outer
    if known == entry:
        return Change(path, before, before)
    if known is not None:
        if not is_our_server(known):
            raise _taken(path, ".".join(table))
        entry = {**known, **entry}
        text = without_table(path, text, table)
    eol = "\r\n" if "\r\n" in text else "\n"
    lead = "" if not text else eol if text.endswith("\n") else eol * 2
    if text.endswith(eol * 2):
        lead = ""
    after = text + lead + toml_entry(table, entry, eol=eol)
    expected = {**value, table[0]: {**(outer if isinstance(outer, dict) else {}), table[1]: entry}}
    if _parsed(after) != expected:
        raise InvalidInput(
            f"{path} has {table[0]} in a form that can't be added to.",
            advice="Add by hand what `recollect connect codex --print` shows; nothing was written.",
        )
    note = {"do": TABLE, "path": list(table), "lead": lead}
    return Change(path, before, bytes_of(after, before), (note,), (f"server {table[1]}",))


def without_table(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """Without the table and those below it. Raises InvalidInput where it stands in a form that isn't ours."""
    value = _parsed(text)
    outer = value.get(table[0]) if value else None
    if value is None or not isinstance(outer, dict) or not is_our_server(outer.get(table[1])):
        return text
    after = text
    for found in reversed(list(_headers(table).finditer(text))):
        following = _HEADER.search(after, found.end())
        end = following.start() if following else len(after)
        kept = "" if following is None else _comments_before(after[found.end() : end])
        begin = found.start()
        if lead and following is None and after[:begin].endswith(lead):
            begin -= len(lead)
        shorter = after[:begin] + kept + after[end:]
        # what looks like a header may stand within a text of others
        if _apart(_parsed(shorter), table) == _apart(value, table):
            after = shorter
    if (_parsed(after) or {}).get(table[0], {}).get(table[1]) is not None:
        raise InvalidInput(
            f"{path} has {'.'.join(table)} in a form that can't be taken out.", advice="Take it out by hand."
        )
    return after


def _headers(table: Sequence[str]) -> re.Pattern[str]:
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table)
    return re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]\n]*)?\][^\n]*(?:\n|$)", re.MULTILINE)


def _apart(value: dict[str, Any] | None, table: Sequence[str]) -> Any:
    """All but the entry; a section that has nothing else is as good as none."""
    if value is None:
        return None
    others = {key: one for key, one in value.get(table[0], {}).items() if key != table[1]}
    rest = {key: one for key, one in value.items() if key != table[0]}
    return {**rest, table[0]: others} if others else rest


def _comments_before(section: str) -> str:
    """What stands right above the next header belongs to it."""
    lines = section.splitlines(keepends=True)
    kept = 0
    for line in reversed(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        kept += 1
    return "".join(lines[len(lines) - kept :]).lstrip("\r\n")


def _toml_of(path: Path, content: bytes | None) -> tuple[str, dict[str, Any]]:
    try:
        text = (content or b"").removeprefix(_UTF8).decode("utf-8")
        return text, tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is not valid TOML: {error}.", advice="Correct it, and try again. Nothing was written."
        ) from error


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _toml(value: Any) -> str:
    """JSON's strings and lists are TOML's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _taken(path: Path, name: str) -> Conflict:
    return Conflict(
        f"{path} has {name} already, and it isn't Recollect's.", advice="Take it out, or name it otherwise."
    )
