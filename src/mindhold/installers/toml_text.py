"""Changes a TOML text in place: adds tables, changes values, removes tables; everything else stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mindhold.model.errors import InvalidInput

_UTF8 = b"\xef\xbb\xbf"
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def toml_entry(table: Sequence[str], entry: Mapping[str, Any], *, eol: str = "\n") -> str:
    """The entry as a table."""
    lines = [f"[{'.'.join(table)}]", *(f"{name} = {_toml(value)}" for name, value in entry.items())]
    return "".join(line + eol for line in lines)


def eol_of(text: str) -> str:
    """What its lines end in."""
    return "\r\n" if "\r\n" in text else "\n"


def with_values(text: str, table: Sequence[str], values: Mapping[tuple[str, ...], Any]) -> str:
    """Other values under these names of a table, where they stand; as it is where they stand in a form that isn't known."""
    for names, value in values.items():
        text = _with_value(text, tuple(table), names, value)
    return text


def _with_value(text: str, table: tuple[str, ...], names: tuple[str, ...], value: Any) -> str:
    was = _at(parsed(text), table)
    wanted = _at_put(was, names, value)
    for owner, key, new in _ways(table, names, value, was):
        for header in _headers(owner, below=False).finditer(text):
            following = _HEADER.search(text, header.end())
            # a list may begin a line too: what isn't the end of the table makes the text another than is wanted
            section = (header.end(), following.start() if following else len(text))
            after = _in_section(text, section, key, new)
            if _at(parsed(after), table) == wanted and _apart(parsed(after), table) == _apart(
                parsed(text), table
            ):
                return after
    return text


def _ways(
    table: tuple[str, ...], names: tuple[str, ...], value: Any, was: Any
) -> list[tuple[tuple[str, ...], str, Any]]:
    """In which table, under which name, which value: for what is within another, a table of its own or one on a line."""
    if len(names) == 1:
        return [(table, names[0], value)]
    return [((*table, names[0]), names[1], value), (table, names[0], {**was[names[0]], names[1]: value})]


def _in_section(text: str, section: tuple[int, int], key: str, value: Any) -> str:
    start, end = section
    eol = eol_of(text)
    written = f"{key} = {_toml(value)}"
    found = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE).search(text, start, end)
    if found is None:
        before = "" if text[:start].endswith("\n") else eol
        return text[:start] + before + written + eol + text[start:]
    stop = found.start()
    while stop < end:  # a value may go over several lines
        stop = text.find("\n", stop, end) + 1 or end
        piece = text[found.start() : stop]
        if (inner := parsed(piece)) is not None:
            tail = next(
                (
                    piece[place:]
                    for place in _behind(piece, found.end() - found.start())
                    if parsed(piece[:place]) == inner
                ),
                "",
            )
            indent = piece[: len(piece) - len(piece.lstrip(" \t"))]
            return text[: found.start()] + indent + written + tail + text[stop:]
    return text


def _behind(piece: str, start: int) -> list[int]:
    """Where what follows a value may begin: the blanks before a comment, or the end of the line."""
    return [found.start() for found in re.finditer(r"[ \t]*(?:#|\r?\n)", piece) if found.start() >= start]


def _at(value: dict[str, Any] | None, table: Sequence[str]) -> Any:
    found: Any = value
    for name in table:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _at_put(was: Any, names: tuple[str, ...], value: Any) -> Any:
    return {**was, names[0]: value if len(names) == 1 else {**was[names[0]], names[1]: value}}


def without(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """Without the table and those below it. Raises InvalidInput where it stands in a form that isn't ours."""
    value = parsed(text)
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
        if _apart(parsed(shorter), table) == _apart(value, table):
            after = shorter
    if (parsed(after) or {}).get(table[0], {}).get(table[1]) is not None:
        raise InvalidInput(
            f"{path} has {'.'.join(table)} in a form that can't be taken out.", advice="Take it out by hand."
        )
    return after


def _headers(table: Sequence[str], *, below: bool = True) -> re.Pattern[str]:
    more = r"(?:\.[^\]\n]*)?" if below else ""
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table)
    return re.compile(rf"^[ \t]*\[\s*{name}\s*{more}\][^\n]*(?:\n|$)", re.MULTILINE)


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


def toml_of(path: Path, content: bytes | None) -> tuple[str, dict[str, Any]]:
    """The text without the mark at its beginning, and what it says. Raises InvalidInput."""
    try:
        text = (content or b"").removeprefix(_UTF8).decode("utf-8")
        return text, tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is not valid TOML: {error}.", advice="Correct it, and try again. Nothing was written."
        ) from error


def parsed(text: str) -> dict[str, Any] | None:
    """None where it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _toml(value: Any) -> str:
    """JSON's strings and lists are TOML's, but for one character."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_name(key)} = {_toml(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if not isinstance(value, str | bool | int | float | list):
        return str(value)  # times are written as they are shown
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
