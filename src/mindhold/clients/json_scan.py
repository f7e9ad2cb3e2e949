"""Reads JSON so that every value is known by the place where it stands, and what is wrong by line and column.

Libraries that keep a text's form while changing it either need Node, or render the whole document anew from a model of
their own: neither leaves what others wrote as it is, byte for byte.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from mindhold.model.errors import BrokenJson

Kind = Literal["object", "array", "plain"]
DEEPEST = 200
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONTAINERS: dict[str, Kind] = {"{": "object", "[": "array"}
_WORDS = {"true": True, "false": False, "null": None}
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


class Node:
    """A value between `start` and `end`. Containers are opened when somebody looks into them: most are never."""

    __slots__ = ("_opened", "_plain", "_within", "end", "kind", "start")

    def __init__(
        self,
        start: int,
        end: int,
        kind: Kind,
        *,
        plain: Any = None,
        opened: tuple[tuple[Child, ...], bool] | None = None,
        within: tuple[_Scanner, int] | None = None,
    ) -> None:
        self.start, self.end, self.kind = start, end, kind
        self._plain, self._opened, self._within = plain, opened, within

    @property
    def children(self) -> tuple[Child, ...]:
        return self._open()[0]

    @property
    def comma(self) -> bool:
        """Whether one stands after the last child, where the dialect allows it."""
        return self._open()[1]

    @property
    def value(self) -> Any:
        """As json.loads has it: the last of equal keys counts."""
        if self.kind == "plain" or self._within is not None:
            return self._plain
        if self.kind == "object":
            return {child.key: child.node.value for child in self.children}
        return [child.node.value for child in self.children]

    def named(self, key: str) -> list[Child]:
        """The members of that name."""
        return [child for child in self.children if child.key == key]

    def _open(self) -> tuple[tuple[Child, ...], bool]:
        if self._opened is None:
            if self._within is None:
                return (), False
            scanner, depth = self._within
            self._opened = scanner.container(self.start, depth, self.kind)._open()
        return self._opened


@dataclass(frozen=True, slots=True)
class Child:
    """A member or an item. `start` is where its key begins, `comma` where the comma before it stands."""

    start: int
    node: Node
    key: str | None = None
    comma: int | None = None

    @property
    def end(self) -> int:
        return self.node.end


def scan(text: str, *, comments: bool = False) -> Node:
    """The document. With `comments` these, and commas after the last child, are allowed. Raises BrokenJson."""
    scanner = _Scanner(text, comments)
    root = scanner.value(scanner.blank(0), 0)
    end = scanner.blank(root.end)
    if end < len(text):
        raise scanner.broken(end, "nothing may follow the document")
    return root


def gaps(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where comments stand between two places that have nothing else but blanks between them."""
    found, place = [], start
    while (match := _COMMENT.search(text, place, end)) is not None:
        found.append(match.span())
        place = match.end()
    return found


def line_and_column(text: str, place: int) -> tuple[int, int]:
    """Both count from one."""
    before = re.split(r"\r\n|\r|\n", text[:place])
    return len(before), len(before[-1]) + 1


class _Scanner:
    def __init__(self, text: str, comments: bool) -> None:
        self.text, self.comments = text, comments

    def broken(self, place: int, reason: str) -> BrokenJson:
        line, column = line_and_column(self.text, place)
        return BrokenJson(reason, line=line, column=column)

    def blank(self, place: int) -> int:
        """Past blanks and comments."""
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

    def value(self, place: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.broken(place, "nested too deeply")
        first = self.text[place : place + 1]
        if first in _CONTAINERS:
            return self.quickly(place, depth) or self.container(place, depth, _CONTAINERS[first])
        if first == '"':
            return Node(place, end := self.string(place), "plain", plain=json.loads(self.text[place:end]))
        if match := _NUMBER.match(self.text, place):
            return Node(place, match.end(), "plain", plain=_number(match.group()))
        for word, plain in _WORDS.items():
            if self.text.startswith(word, place):
                return Node(place, place + len(word), "plain", plain=plain)
        raise self.broken(place, f"{first!r} where a value should be" if first else "the text ends too early")

    def quickly(self, place: int, depth: int) -> Node | None:
        """A container by the standard library's scanner, which says only where it ends; None where it doesn't know it."""
        try:
            value, end = _QUICK.raw_decode(self.text, place)
        except (ValueError, RecursionError):  # comments, or something is wrong: then it matters where
            return None
        return Node(place, end, _CONTAINERS[self.text[place]], plain=value, within=(self, depth))

    def string(self, place: int) -> int:
        match = _STRING.match(self.text, place)
        if match is None:
            raise self.broken(place, "a string that doesn't end, or has something in it that must be escaped")
        return match.end()

    def container(self, start: int, depth: int, kind: Kind) -> Node:
        """Opened, whatever stands in it."""
        close = "}" if kind == "object" else "]"
        children: list[Child] = []
        place, comma = self.blank(start + 1), None
        while True:
            if self.text[place : place + 1] == close and (comma is None or self.comments):
                return Node(start, place + 1, kind, opened=(tuple(children), comma is not None))
            child = self.child(place, depth + 1, kind, comma)
            children.append(child)
            place = self.blank(child.end)
            after = self.text[place : place + 1]
            if after == ",":
                comma, place = place, self.blank(place + 1)
            elif after == close:
                return Node(start, place + 1, kind, opened=(tuple(children), False))
            else:
                found = f"{after!r} where" if after else "the text ends where"
                raise self.broken(place, f"{found} a comma or {close!r} should be")

    def child(self, place: int, depth: int, kind: str, comma: int | None) -> Child:
        if kind == "array":
            return Child(place, self.value(place, depth), comma=comma)
        if self.text[place : place + 1] != '"':
            raise self.broken(place, "a name in double quotes should be here")
        end = self.string(place)
        colon = self.blank(end)
        if self.text[colon : colon + 1] != ":":
            raise self.broken(colon, "a colon should be here")
        node = self.value(self.blank(colon + 1), depth)
        return Child(place, node, json.loads(self.text[place:end]), comma)


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_QUICK = json.JSONDecoder(parse_constant=_refused)


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdigit()
    try:
        return int(text) if whole else float(text)
    except ValueError:  # longer than Python reads at once
        return float(text)
