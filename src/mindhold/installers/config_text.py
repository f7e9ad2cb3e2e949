"""Edits JSON and TOML texts in place: everything else stays the same, byte for byte."""

from __future__ import annotations

import json
import re
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from mindhold.model.errors import BrokenJson, InvalidInput, WrongShape

JsonKind = Literal["object", "array", "plain"]
DEEPEST = 200
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONTAINERS: dict[str, JsonKind] = {"{": "object", "[": "array"}
_WORDS = {"true": True, "false": False, "null": None}
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


class _Scanner:
    def __init__(self, text: str, comments: bool) -> None:
        self.text, self.comments = text, comments

    def broken(self, place: int, reason: str) -> BrokenJson:
        line, column = line_and_column(self.text, place)
        return BrokenJson(reason, line=line, column=column)

    def skip_blank(self, place: int) -> int:
        """The next position after blanks and comments."""
        while True:
            match = _BLANK.match(self.text, place)
            place = match.end() if match else place
            if self.text[place : place + 1] != "/":
                return place
            if not self.comments:
                raise self.broken(place, "comments are not allowed in this file")
            comment = _COMMENT.match(self.text, place)
            if comment is None:
                raise self.broken(place, "a comment that doesn't end")
            place = comment.end()

    def value(self, place: int, depth: int) -> JsonNode:
        if depth > DEEPEST:
            raise self.broken(place, "nested too deeply")
        first = self.text[place : place + 1]
        if first in _CONTAINERS:
            return self.scan_fast(place, depth) or self.container(place, depth, _CONTAINERS[first])
        if first == '"':
            return JsonNode(place, end := self.string(place), "plain", plain=json.loads(self.text[place:end]))
        if match := _NUMBER.match(self.text, place):
            return JsonNode(place, match.end(), "plain", plain=_number(match.group()))
        for word, plain in _WORDS.items():
            if self.text.startswith(word, place):
                return JsonNode(place, place + len(word), "plain", plain=plain)
        raise self.broken(place, f"{first!r} where a value should be" if first else "the text ends too early")

    def scan_fast(self, place: int, depth: int) -> JsonNode | None:
        """A container by the standard library's scanner, which gives only its end; None if that fails."""
        try:
            value, end = _QUICK.raw_decode(self.text, place)
        except (ValueError, RecursionError):  # comments, or an error: then its position matters
            return None
        return JsonNode(place, end, _CONTAINERS[self.text[place]], plain=value, unscanned=(self, depth))

    def string(self, place: int) -> int:
        match = _STRING.match(self.text, place)
        if match is None:
            raise self.broken(place, "a string that doesn't end, or has something in it that must be escaped")
        return match.end()

    def container(self, start: int, depth: int, kind: JsonKind) -> JsonNode:
        """Scan a container with all its children."""
        close = "}" if kind == "object" else "]"
        children: list[JsonChild] = []
        place, comma = self.skip_blank(start + 1), None
        while True:
            if self.text[place : place + 1] == close and (comma is None or self.comments):
                return JsonNode(start, place + 1, kind, contents=(tuple(children), comma is not None))
            child = self.child(place, depth + 1, kind, comma)
            children.append(child)
            place = self.skip_blank(child.end)
            after = self.text[place : place + 1]
            if after == ",":
                comma, place = place, self.skip_blank(place + 1)
            elif after == close:
                return JsonNode(start, place + 1, kind, contents=(tuple(children), False))
            else:
                context = f"{after!r} where" if after else "the text ends where"
                raise self.broken(place, f"{context} a comma or {close!r} should be")

    def child(self, place: int, depth: int, kind: str, comma: int | None) -> JsonChild:
        if kind == "array":
            return JsonChild(place, self.value(place, depth), comma=comma)
        if self.text[place : place + 1] != '"':
            raise self.broken(place, "a name in double quotes should be here")
        end = self.string(place)
        colon = self.skip_blank(end)
        if self.text[colon : colon + 1] != ":":
            raise self.broken(colon, "a colon should be here")
        node = self.value(self.skip_blank(colon + 1), depth)
        return JsonChild(place, node, json.loads(self.text[place:end]), comma)


@dataclass(slots=True, eq=False)
class JsonNode:
    """A value between `start` and `end`. Containers are scanned when first accessed; most never are.

    `contents` are the children, and whether a comma follows the last one, where the dialect allows it.
    """

    start: int
    end: int
    kind: JsonKind
    plain: Any = None
    contents: tuple[tuple[JsonChild, ...], bool] | None = None
    unscanned: tuple[_Scanner, int] | None = None

    @property
    def children(self) -> tuple[JsonChild, ...]:
        return self._scan_contents()[0]

    @property
    def comma(self) -> bool:
        return self._scan_contents()[1]

    @property
    def value(self) -> Any:
        """The same as json.loads gives: the last of equal keys counts."""
        if self.kind == "plain" or self.unscanned is not None:
            return self.plain
        if self.kind == "object":
            return {child.key: child.node.value for child in self.children}
        return [child.node.value for child in self.children]

    def members(self, key: str) -> list[JsonChild]:
        """The members with that name."""
        return [child for child in self.children if child.key == key]

    def _scan_contents(self) -> tuple[tuple[JsonChild, ...], bool]:
        if self.contents is None:
            if self.unscanned is None:
                return (), False
            scanner, depth = self.unscanned
            self.contents = scanner.container(self.start, depth, self.kind).contents
        return self.contents or ((), False)


@dataclass(frozen=True, slots=True)
class JsonChild:
    """A member or an item. `start` is where its key begins, `comma` the position of the comma before it."""

    start: int
    node: JsonNode
    key: str | None = None
    comma: int | None = None

    @property
    def end(self) -> int:
        return self.node.end


def scan(text: str, *, comments: bool = False) -> JsonNode:
    """Scan a document. `comments` allows comments and trailing commas. Raises BrokenJson."""
    scanner = _Scanner(text, comments)
    root = scanner.value(scanner.skip_blank(0), 0)
    end = scanner.skip_blank(root.end)
    if end < len(text):
        raise scanner.broken(end, "nothing may follow the document")
    return root


def comment_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The comments between two positions that have only blanks and comments between them."""
    spans, position = [], start
    while (match := _COMMENT.search(text, position, end)) is not None:
        spans.append(match.span())
        position = match.end()
    return spans


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Line and column of a position, counted from one."""
    before = re.split(r"\r\n|\r|\n", text[:position])
    return len(before), len(before[-1]) + 1


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_QUICK = json.JSONDecoder(parse_constant=_reject_constant)


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdigit()
    try:
        return int(text) if whole else float(text)
    except ValueError:  # longer than Python's limit for integers
        return float(text)


WIDEST = 100
_COLON = re.compile(r'"\s*:(\s*)')
_INDENTED = re.compile(r"[\[{][ \t]*\r?\n([ \t]+)\S")
KeyPath = tuple[str | int, ...]  # member names and list indexes


@dataclass(frozen=True, slots=True)
class JsonInsertion:
    """A document after an insertion. `created`: containers that were created; `inner`: the content of one that was empty."""

    document: JsonText
    created: tuple[KeyPath, ...] = ()
    inner: Mapping[KeyPath, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JsonText:
    """A document as text, and whether it may have comments."""

    text: str
    comments: bool = False
    _scanned: list[JsonNode] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def value(self) -> Any:
        """The parsed document. Raises BrokenJson."""
        return self._read().value

    def check(self) -> None:
        """Raises BrokenJson, and WrongShape if the document isn't an object."""
        self._root()

    def get(self, path: KeyPath) -> Any:
        """The value at the path; None if there is none. Raises BrokenJson, WrongShape."""
        node = self._find(path)
        return None if node is None else node.value

    def put_member(self, path: KeyPath, value: Any) -> JsonInsertion:
        """Set a member: replaced if it exists, else added last. Raises BrokenJson, WrongShape."""
        node, depth = self._deepest(path)
        if depth == len(path):
            return JsonInsertion(self._with(self._replace(node, value)))
        self._expect(node, "object", path[:depth])
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        created = tuple(path[:length] for length in range(depth + 1, len(path)))
        return self._add(node, path[:depth], str(path[depth]), value, created)

    def put_item(self, path: KeyPath, value: Any) -> JsonInsertion:
        """Append to the list at the path, which is created if necessary. Raises BrokenJson, WrongShape."""
        node, depth = self._deepest(path)
        if depth < len(path):
            insertion = self.put_member(path, [value])
            return replace(insertion, created=(*insertion.created, path))
        self._expect(node, "array", path)
        return self._add(node, path, None, value)

    def drop_member(self, path: KeyPath, *, inner: Mapping[KeyPath, str] | None = None) -> JsonText:
        """The document without the member, if there is one. `inner` restores the content of an emptied container."""
        owner = self._find(path[:-1])
        matches = owner.members(str(path[-1])) if owner and owner.kind == "object" else []
        if owner is None or not matches:
            return self
        number = owner.children.index(matches[-1])
        return self._with(self._remove(owner, number, (inner or {}).get(path[:-1])))

    def drop_place(
        self, path: KeyPath, number: int, *, inner: Mapping[KeyPath, str] | None = None
    ) -> JsonText:
        """The document without that item of the list at the path."""
        node = self._find(path)
        if node is None or node.kind != "array":
            return self
        return self._with(self._remove(node, number, (inner or {}).get(path)))

    def drop_items(self, path: KeyPath, unwanted: Callable[[Any], bool]) -> JsonText:
        """The document without the unwanted items."""
        items, document = self.get(path), self
        for number in reversed(range(len(items) if isinstance(items, list) else 0)):
            if unwanted(items[number]):
                document = document.drop_place(path, number)
        return document

    def is_empty(self, path: KeyPath) -> bool:
        """Whether an empty container is at the path, without even a comment."""
        node = self._find(path)
        if node is None or node.kind == "plain":
            return False
        return not node.children and not self.text[node.start + 1 : node.end - 1].strip()

    def _with(self, text: str) -> JsonText:
        return JsonText(text, self.comments)

    def _read(self) -> JsonNode:
        """Scan once: such a file may be large."""
        if not self._scanned:
            self._scanned.append(scan(self.text, comments=self.comments))
        return self._scanned[0]

    def _root(self) -> JsonNode:
        root = self._read()
        self._expect(root, "object", ())
        return root

    def _expect(self, node: JsonNode, kind: str, path: KeyPath) -> None:
        if node.kind != kind:
            expected = "an object" if kind == "object" else "a list"
            raise self._wrong(node.start, f"{_path_name(path)} should be {expected}")

    def _wrong(self, place: int, reason: str) -> WrongShape:
        line, column = line_and_column(self.text, place)
        return WrongShape(reason, line=line, column=column)

    def _find(self, path: KeyPath) -> JsonNode | None:
        node, depth = self._deepest(path)
        return node if depth == len(path) else None

    def _deepest(self, path: KeyPath) -> tuple[JsonNode, int]:
        """The last node on the path that exists, and how many keys lead to it."""
        node = self._root()
        for depth, key in enumerate(path):
            self._expect(node, "array" if isinstance(key, int) else "object", path[:depth])
            matches = [node.children[key]] if isinstance(key, int) else node.members(key)
            if len(matches) > 1:
                raise self._wrong(matches[1].start, f"{_path_name(path[: depth + 1])} stands there twice")
            if not matches:
                return node, depth
            node = matches[0].node
        return node, len(path)

    def _replace(self, node: JsonNode, value: Any) -> str:
        shape = node if node.children else self._root()
        flat = self._is_flat(shape)
        rendered = self._render(value, self._line_indent(node.start), WIDEST, flat=flat)
        return self.text[: node.start] + rendered + self.text[node.end :]

    def _add(
        self, node: JsonNode, path: KeyPath, key: str | None, value: Any, created: tuple[KeyPath, ...] = ()
    ) -> JsonInsertion:
        """Insert where comments keep their lines: the comma right after the last child, the rest after comments."""
        text, close, root = self.text, node.end - 1, self._root()
        last = node.children[-1] if node.children else None
        child_end = last.end if last else node.start + 1
        if node.comma:
            child_end = text.index(",", skip_comments(text, child_end, close)) + 1
        comments = comment_spans(text, child_end, close)
        place = comments[-1][1] if comments else child_end
        flat = self._is_flat(node if last else root) and bool(root.children)
        flat = flat and not any(text.startswith("//", begin) for begin, _ in comments)
        indent = self._child_indent(node, last)
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + self._colon(root)
        new = name + self._render(value, indent, WIDEST - len(name), flat=flat)
        if flat:
            new = (self._gap(node) if last else "") + new
        else:
            new = self._eol + indent + new
            if last is None and "\n" not in text[place:close]:
                new += self._eol + self._line_indent(node.start)
        new += "," if node.comma else ""
        comma = "," if last and not node.comma else ""
        after = text[:child_end] + comma + text[child_end:place] + new + text[place:]
        inner = {} if last else {path: text[node.start + 1 : close]}
        return JsonInsertion(self._with(after), created, inner)

    def _remove(self, node: JsonNode, number: int, inner: str | None) -> str:
        text, child = self.text, node.children[number]
        if len(node.children) == 1:
            return self._empty(node, child, inner)
        if number + 1 < len(node.children):  # the comma after it goes
            comma = node.children[number + 1].comma
            assert comma is not None
            following = node.children[number + 1].start
            if number == 0 and not (text[child.end : comma] + text[comma + 1 : following]).strip():
                return text[: child.start] + text[following:]
            return self._up_to(node, child) + text[child.end : comma] + text[comma + 1 :]
        if node.comma:
            end = text.index(",", skip_comments(text, child.end, node.end))
            return self._up_to(node, child, end + 1) + text[child.end : end] + text[end + 1 :]
        assert child.comma is not None
        before = self._up_to(node, child)
        return before[: child.comma] + before[child.comma + 1 :] + text[child.end :]

    def _empty(self, node: JsonNode, child: JsonChild, inner: str | None) -> str:
        text, end, between = self.text, child.end, ""
        if node.comma:
            comma = text.index(",", skip_comments(text, end, node.end))
            between, end = text[end:comma], comma + 1
        rest = end if not between else None
        content = self._up_to(node, child, rest)[node.start + 1 :] + between + text[end : node.end - 1]
        if not content.strip():
            content = inner if inner is not None and not inner.strip() else ""
        elif inner is not None and inner.split() == content.split():
            content = inner
        return text[: node.start + 1] + content + text[node.end - 1 :]

    def _up_to(self, node: JsonNode, child: JsonChild, rest: int | None = None) -> str:
        """The text before the child without blanks; a line comment keeps its line end if `rest` would join it."""
        text = self.text
        start = node.start + 1 if child.comma is None else child.comma + 1
        comments = comment_spans(text, start, child.start)
        begin = comments[-1][1] if comments else start
        follows = text[child.end if rest is None else rest :][:1]
        ends = comments and text.startswith("//", comments[-1][0]) and follows not in ("\r", "\n")
        newline = re.match(r"\r?\n|\r", text[begin:]) if ends else None
        return text[:begin] + (newline.group() if newline else "")

    @property
    def _eol(self) -> str:
        return line_ending(self.text)

    def _is_flat(self, node: JsonNode) -> bool:
        return bool(node.children) and "\n" not in self.text[node.start : node.children[0].start]

    def _gap(self, node: JsonNode) -> str:
        """The blanks after commas."""
        if len(node.children) > 1:
            second = node.children[1]
            assert second.comma is not None
            between = self.text[second.comma + 1 : second.start]
            return between if not between.strip() and "\n" not in between else " "
        return "" if self._colon(node) == ":" else " "

    def _colon(self, node: JsonNode) -> str:
        match = _COLON.search(self.text, node.start, node.end)
        return ": " if match is None or match.group(1) else ":"

    def _line_indent(self, place: int) -> str:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _child_indent(self, node: JsonNode, last: JsonChild | None) -> str:
        if last is not None:
            begin = self.text.rfind("\n", 0, last.start) + 1
            if not self.text[begin : last.start].strip(" \t"):
                return self.text[begin : last.start]
        return self._line_indent(node.start) + self._unit

    @property
    def _unit(self) -> str:
        """One step of indentation: that of the first indented line."""
        match = _INDENTED.search(self.text)
        return match.group(1) if match else "  "

    def _render(self, value: Any, indent: str, room: int, *, flat: bool) -> str:
        if flat:
            colon = self._colon(self._root())
            comma = "," if colon == ":" else ", "
            return json.dumps(value, ensure_ascii=False, separators=(comma, colon))
        return render(value, indent=indent, unit=self._unit, eol=self._eol, room=room - len(indent))


def render(value: Any, *, indent: str = "", unit: str = "  ", eol: str = "\n", room: int = WIDEST) -> str:
    """JSON with objects over several lines, and lists of plain values on one line if they fit."""
    inside = indent + unit
    if isinstance(value, Mapping) and value:
        lines = []
        for key, member in value.items():
            name = json.dumps(key, ensure_ascii=False) + ": "
            member_room = room - len(unit) - len(name)
            lines.append(name + render(member, indent=inside, unit=unit, eol=eol, room=member_room))
        return "{" + eol + f",{eol}".join(inside + line for line in lines) + eol + indent + "}"
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        one_line = json.dumps(value, ensure_ascii=False)
        if len(one_line) <= room and not any(
            isinstance(element, Mapping | list | tuple) for element in value
        ):
            return one_line
        items = [
            render(element, indent=inside, unit=unit, eol=eol, room=room - len(unit)) for element in value
        ]
        return "[" + eol + f",{eol}".join(inside + item for item in items) + eol + indent + "]"
    return json.dumps(value, ensure_ascii=False)


def skip_comments(text: str, start: int, end: int) -> int:
    """The position after the comments before the next comma."""
    position = start
    for begin, after in comment_spans(text, start, end):
        if text[position:begin].strip():
            break
        position = after
    return position


def _path_name(path: KeyPath) -> str:
    return ".".join(map(str, path)) if path else "The document"


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
    lines = reversed(section.splitlines(keepends=True))
    comments = [*takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), lines)]
    return "".join(reversed(comments)).lstrip("\r\n")


def parse_toml_file(path: Path, content: bytes | None) -> tuple[str, dict[str, Any]]:
    """The text without a byte order mark, and its parsed value. Raises InvalidInput."""
    try:
        text = (content or b"").removeprefix(BOM_UTF8).decode("utf-8")
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
