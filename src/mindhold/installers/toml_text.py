"""Edits a TOML text in place: adds tables, changes values, removes tables; everything else stays the same."""

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


def line_ending(text: str) -> str:
    """The line ending of the text."""
    return "\r\n" if "\r\n" in text else "\n"


def set_values(text: str, table: Sequence[str], values: Mapping[tuple[str, ...], Any]) -> str:
    """Change values of a table in place; unchanged if they have an unknown form."""
    for names, value in values.items():
        text = _set_value(text, tuple(table), names, value)
    return text


def _set_value(text: str, table: tuple[str, ...], names: tuple[str, ...], value: Any) -> str:
    current = _value_at(parse_toml(text), table)
    expected = _with_nested(current, names, value)
    for owner, key, new in _possible_edits(table, names, value, current):
        for header in _headers(owner, below=False).finditer(text):
            following = _HEADER.search(text, header.end())
            # A list may start a line too: if this isn't the end of the table, the result differs from what is expected.
            section = (header.end(), following.start() if following else len(text))
            after = _edit_section(text, section, key, new)
            if _value_at(parse_toml(after), table) == expected and _without_entry(
                parse_toml(after), table
            ) == _without_entry(parse_toml(text), table):
                return after
    return text


def _possible_edits(
    table: tuple[str, ...], names: tuple[str, ...], value: Any, current: Any
) -> list[tuple[tuple[str, ...], str, Any]]:
    """Table, key and value of each possible edit: a nested value is in a subtable or in an inline table."""
    if len(names) == 1:
        return [(table, names[0], value)]
    return [((*table, names[0]), names[1], value), (table, names[0], {**current[names[0]], names[1]: value})]


def _edit_section(text: str, section: tuple[int, int], key: str, value: Any) -> str:
    start, end = section
    eol = line_ending(text)
    line = f"{key} = {_toml(value)}"
    match = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE).search(text, start, end)
    if match is None:
        before = "" if text[:start].endswith("\n") else eol
        return text[:start] + before + line + eol + text[start:]
    stop = match.start()
    while stop < end:  # a value may span several lines
        stop = text.find("\n", stop, end) + 1 or end
        piece = text[match.start() : stop]
        if (inner := parse_toml(piece)) is not None:
            tail = next(
                (
                    piece[position:]
                    for position in _value_ends(piece, match.end() - match.start())
                    if parse_toml(piece[:position]) == inner
                ),
                "",
            )
            indent = piece[: len(piece) - len(piece.lstrip(" \t"))]
            return text[: match.start()] + indent + line + tail + text[stop:]
    return text


def _value_ends(piece: str, start: int) -> list[int]:
    return [match.start() for match in re.finditer(r"[ \t]*(?:#|\r?\n)", piece) if match.start() >= start]


def _value_at(value: dict[str, Any] | None, table: Sequence[str]) -> Any:
    result: Any = value
    for name in table:
        result = result.get(name) if isinstance(result, dict) else None
    return result


def _with_nested(current: Any, names: tuple[str, ...], value: Any) -> Any:
    return {**current, names[0]: value if len(names) == 1 else {**current[names[0]], names[1]: value}}


def remove_table(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """The text without the table and its subtables. Raises InvalidInput for an unknown form."""
    value = parse_toml(text)
    after = text
    for header in reversed(list(_headers(table).finditer(text))):
        following = _HEADER.search(after, header.end())
        end = following.start() if following else len(after)
        comments = "" if following is None else _comments_before(after[header.end() : end])
        begin = header.start()
        if lead and following is None and after[:begin].endswith(lead):
            begin -= len(lead)
        shorter = after[:begin] + comments + after[end:]
        # What looks like a header may be inside a string.
        if _without_entry(parse_toml(shorter), table) == _without_entry(value, table):
            after = shorter
    if (parse_toml(after) or {}).get(table[0], {}).get(table[1]) is not None:
        raise InvalidInput(
            f"{path} has {'.'.join(table)} in a form that can't be taken out.", advice="Take it out by hand."
        )
    return after


def _headers(table: Sequence[str], *, below: bool = True) -> re.Pattern[str]:
    more = r"(?:\.[^\]\n]*)?" if below else ""
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in table)
    return re.compile(rf"^[ \t]*\[\s*{name}\s*{more}\][^\n]*(?:\n|$)", re.MULTILINE)


def _without_entry(value: dict[str, Any] | None, table: Sequence[str]) -> Any:
    """Everything except the entry; an otherwise empty section counts as none."""
    if value is None:
        return None
    others = {key: item for key, item in value.get(table[0], {}).items() if key != table[1]}
    rest = {key: item for key, item in value.items() if key != table[0]}
    return {**rest, table[0]: others} if others else rest


def _comments_before(section: str) -> str:
    """Comments right above the next header belong to it."""
    lines = section.splitlines(keepends=True)
    count = 0
    for line in reversed(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        count += 1
    return "".join(lines[len(lines) - count :]).lstrip("\r\n")


def parse_toml_file(path: Path, content: bytes | None) -> tuple[str, dict[str, Any]]:
    """The text without a byte order mark, and its parsed value. Raises InvalidInput."""
    try:
        text = (content or b"").removeprefix(_UTF8).decode("utf-8")
        return text, tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is not valid TOML: {error}.", advice="Correct it, and try again. Nothing was written."
        ) from error


def parse_toml(text: str) -> dict[str, Any] | None:
    """The parsed value; None if the text isn't TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _toml(value: Any) -> str:
    """JSON's strings and lists are valid TOML, except for one character."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_quote_key(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if not isinstance(value, str | bool | int | float | list):
        return str(value)  # times are written as they are shown
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def _quote_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
