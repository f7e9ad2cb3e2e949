"""Changes a JSON text in place: all that isn't changed stays as it is, byte for byte, in the form that the text has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindhold.clients.json_scan import Child, Node, gaps, line_and_column, scan
from mindhold.model.errors import WrongShape

WIDEST = 100
_COLON = re.compile(r'"\s*:(\s*)')
_INDENTED = re.compile(r"[\[{][ \t]*\r?\n([ \t]+)\S")
Path = tuple[str | int, ...]  # names of members, places in lists


@dataclass(frozen=True, slots=True)
class Put:
    """A text with something put in. `made`: containers that weren't there; `inner`: what stood in one that was empty."""

    text: str
    made: tuple[Path, ...] = ()
    inner: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JsonText:
    """A document as text, and whether it may have comments."""

    text: str
    comments: bool = False
    _scanned: list[Node] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def value(self) -> Any:
        """Raises BrokenJson."""
        return self._read().value

    def check(self) -> None:
        """Raises BrokenJson, and WrongShape for a document that is no object."""
        self._root()

    def get(self, path: Path) -> Any:
        """The value there; None where nothing is. Raises BrokenJson, WrongShape."""
        node = self._find(path)
        return None if node is None else node.value

    def put_member(self, path: Path, value: Any) -> Put:
        """The value under that name: replaced where there is one, else put last. Raises BrokenJson, WrongShape."""
        root = self._root()
        node, depth = self._deepest(root, path)
        if depth == len(path):
            return Put(self._replaced(node, value))
        self._expect(node, "object", path[:depth])
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        made = tuple(path[:length] for length in range(depth + 1, len(path)))
        return self._added(root, node, str(path[depth]), value, made, path[:depth])

    def put_item(self, path: Path, value: Any) -> Put:
        """Put last into the list there, which is made if need be. Raises BrokenJson, WrongShape."""
        root = self._root()
        node, depth = self._deepest(root, path)
        if depth < len(path):
            put = self.put_member(path, [value])
            return Put(put.text, (*put.made, path), put.inner)
        self._expect(node, "array", path)
        return self._added(root, node, None, value, (), path)

    def drop_member(self, path: Path, *, inner: Mapping[Path, str] | None = None) -> str:
        """Without it; as it is where there is none. `inner` is what an emptied container had in it before."""
        owner = self._find(path[:-1])
        found = owner.named(str(path[-1])) if owner and owner.kind == "object" else []
        if owner is None or not found:
            return self.text
        return self._without(owner, owner.children.index(found[-1]), (inner or {}).get(path[:-1]))

    def drop_place(self, path: Path, number: int, *, inner: Mapping[Path, str] | None = None) -> str:
        """Without that item of the list there."""
        node = self._find(path)
        if node is None or node.kind != "array":
            return self.text
        return self._without(node, number, (inner or {}).get(path))

    def drop_items(
        self, path: Path, unwanted: Callable[[Any], bool], *, inner: Mapping[Path, str] | None = None
    ) -> str:
        """Without the items that are unwanted."""
        items, now = self.get(path), self
        for number in reversed(range(len(items) if isinstance(items, list) else 0)):
            if unwanted(items[number]):
                now = JsonText(now.drop_place(path, number, inner=inner), self.comments)
        return now.text

    def is_empty(self, path: Path) -> bool:
        """Whether a container stands there with nothing in it, not even a comment."""
        node = self._find(path)
        bare = node is not None and node.kind != "plain" and not node.children
        return node is not None and bare and not self.text[node.start + 1 : node.end - 1].strip()

    def _read(self) -> Node:
        """Once: such a file may be large."""
        if not self._scanned:
            self._scanned.append(scan(self.text, comments=self.comments))
        return self._scanned[0]

    def _root(self) -> Node:
        root = self._read()
        self._expect(root, "object", ())
        return root

    def _expect(self, node: Node, kind: str, path: Path) -> None:
        if node.kind != kind:
            wanted = "an object" if kind == "object" else "a list"
            raise self._wrong(node.start, f"{_named(path)} should be {wanted}")

    def _wrong(self, place: int, reason: str) -> WrongShape:
        line, column = line_and_column(self.text, place)
        return WrongShape(reason, line=line, column=column)

    def _find(self, path: Path) -> Node | None:
        node, depth = self._deepest(self._root(), path)
        return node if depth == len(path) else None

    def _deepest(self, root: Node, path: Path) -> tuple[Node, int]:
        node = root
        for depth, key in enumerate(path):
            self._expect(node, "array" if isinstance(key, int) else "object", path[:depth])
            found = [node.children[key]] if isinstance(key, int) else node.named(key)
            if len(found) > 1:
                raise self._wrong(found[1].start, f"{_named(path[: depth + 1])} stands there twice")
            if not found:
                return node, depth
            node = found[0].node
        return node, len(path)

    def _replaced(self, node: Node, value: Any) -> str:
        shape = node if node.children else self._root()
        flat = self._is_flat(shape)
        rendered = self._rendered(value, self._line_indent(node.start), WIDEST, flat=flat)
        return self.text[: node.start] + rendered + self.text[node.end :]

    def _added(
        self, root: Node, node: Node, key: str | None, value: Any, made: tuple[Path, ...], where: Path
    ) -> Put:
        """The pieces go where comments keep their lines: the comma right behind the last child, the rest behind them."""
        text, close = self.text, node.end - 1
        last = node.children[-1] if node.children else None
        behind = last.end if last else node.start + 1
        if node.comma:
            behind = text.index(",", gaps_end(text, behind, close)) + 1
        comments = gaps(text, behind, close)
        place = comments[-1][1] if comments else behind
        flat = self._is_flat(node if last else root) and bool(root.children)
        flat = flat and not any(text.startswith("//", begin) for begin, _ in comments)
        indent = self._child_indent(node, last)
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + self._colon(root)
        new = name + self._rendered(value, indent, WIDEST - len(name), flat=flat)
        if flat:
            new = (self._gap(node) if last else "") + new
        else:
            new = self._eol + indent + new
            if last is None and "\n" not in text[place:close]:
                new += self._eol + self._line_indent(node.start)
        new += "," if node.comma else ""
        comma = "," if last and not node.comma else ""
        after = text[:behind] + comma + text[behind:place] + new + text[place:]
        inner = {} if last else {where: text[node.start + 1 : close]}
        return Put(after, made, inner)

    def _without(self, node: Node, number: int, inner: str | None) -> str:
        text, child = self.text, node.children[number]
        if len(node.children) == 1:
            return self._emptied(node, child, inner)
        if number + 1 < len(node.children):  # the comma behind it goes
            comma = node.children[number + 1].comma
            assert comma is not None
            following = node.children[number + 1].start
            if number == 0 and not (text[child.end : comma] + text[comma + 1 : following]).strip():
                return text[: child.start] + text[following:]
            return self._up_to(node, child) + text[child.end : comma] + text[comma + 1 :]
        if node.comma:
            end = text.index(",", gaps_end(text, child.end, node.end))
            return self._up_to(node, child, end + 1) + text[child.end : end] + text[end + 1 :]
        assert child.comma is not None
        before = self._up_to(node, child)
        return before[: child.comma] + before[child.comma + 1 :] + text[child.end :]

    def _emptied(self, node: Node, child: Child, inner: str | None) -> str:
        text, end, between = self.text, child.end, ""
        if node.comma:
            comma = text.index(",", gaps_end(text, end, node.end))
            between, end = text[end:comma], comma + 1
        rest = end if not between else None
        left = self._up_to(node, child, rest)[node.start + 1 :] + between + text[end : node.end - 1]
        if not left.strip():
            left = inner if inner is not None and not inner.strip() else ""
        elif inner is not None and inner.split() == left.split():
            left = inner
        return text[: node.start + 1] + left + text[node.end - 1 :]

    def _up_to(self, node: Node, child: Child, rest: int | None = None) -> str:
        """All before it without the blanks; but a line that is a comment to its end stays one, if `rest` would join it."""
        text = self.text
        start = node.start + 1 if child.comma is None else child.comma + 1
        comments = gaps(text, start, child.start)
        begin = comments[-1][1] if comments else start
        follows = text[child.end if rest is None else rest :][:1]
        ends = comments and text.startswith("//", comments[-1][0]) and follows not in ("\r", "\n")
        newline = re.match(r"\r?\n|\r", text[begin:]) if ends else None
        return text[:begin] + (newline.group() if newline else "")

    @property
    def _eol(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _is_flat(self, node: Node) -> bool:
        """Whether its children don't begin lines of their own."""
        return bool(node.children) and "\n" not in self.text[node.start : node.children[0].start]

    def _gap(self, node: Node) -> str:
        """What stands behind commas."""
        if len(node.children) > 1:
            second = node.children[1]
            assert second.comma is not None
            between = self.text[second.comma + 1 : second.start]
            return between if not between.strip() and "\n" not in between else " "
        return "" if self._colon(node) == ":" else " "

    def _colon(self, node: Node) -> str:
        found = _COLON.search(self.text, node.start, node.end)
        return ": " if found is None or found.group(1) else ":"

    def _line_indent(self, place: int) -> str:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _child_indent(self, node: Node, last: Child | None) -> str:
        if last is not None:
            begin = self.text.rfind("\n", 0, last.start) + 1
            if not self.text[begin : last.start].strip(" \t"):
                return self.text[begin : last.start]
        return self._line_indent(node.start) + self._unit

    @property
    def _unit(self) -> str:
        """One step of indentation: that of the first line which has any."""
        found = _INDENTED.search(self.text)
        return found.group(1) if found else "  "

    def _rendered(self, value: Any, indent: str, room: int, *, flat: bool) -> str:
        if flat:
            tight = self._gap_style()
            return json.dumps(value, ensure_ascii=False, separators=tight)
        return render(value, indent=indent, unit=self._unit, eol=self._eol, room=room - len(indent))

    def _gap_style(self) -> tuple[str, str]:
        colon = self._colon(self._root())
        return (",", ":") if colon == ":" else (", ", ": ")


def render(value: Any, *, indent: str = "", unit: str = "  ", eol: str = "\n", room: int = WIDEST) -> str:
    """Objects over several lines, lists of plain values on one if they fit."""
    inside = indent + unit
    if isinstance(value, Mapping) and value:
        lines = []
        for key, one in value.items():
            name = json.dumps(key, ensure_ascii=False) + ": "
            left = room - len(unit) - len(name)
            lines.append(name + render(one, indent=inside, unit=unit, eol=eol, room=left))
        return "{" + eol + f",{eol}".join(inside + line for line in lines) + eol + indent + "}"
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        one_line = json.dumps(value, ensure_ascii=False)
        if len(one_line) <= room and not any(isinstance(one, Mapping | list | tuple) for one in value):
            return one_line
        items = [render(one, indent=inside, unit=unit, eol=eol, room=room - len(unit)) for one in value]
        return "[" + eol + f",{eol}".join(inside + item for item in items) + eol + indent + "]"
    return json.dumps(value, ensure_ascii=False)


def gaps_end(text: str, start: int, end: int) -> int:
    """Behind the last comment, before the comma that follows."""
    place = start
    for begin, after in gaps(text, start, end):
        if text[place:begin].strip():
            break
        place = after
    return place


def _named(path: Path) -> str:
    return ".".join(map(str, path)) if path else "The document"
