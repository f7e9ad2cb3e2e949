"""Finds the resource of a path. Paths are read as sent, so a name may contain any character (a slash as %2F)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from mindhold.contracts.rest.resource import Resource
from mindhold.model.errors import InvalidInput

ROOT = "api"


@dataclass(slots=True)
class _Node:
    words: dict[str, _Node] = field(default_factory=dict)
    free: _Node | None = None
    rows: dict[str, Resource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathMatch:
    """What is served at a path, by method, and what stands where its pattern has names, in order."""

    rows: Mapping[str, Resource]
    values: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The methods, as `Allow` tells them."""
        also = ["HEAD"] if "GET" in self.rows else []
        return ", ".join(sorted({*self.rows, *also, "OPTIONS"}))

    def named(self, row: Resource) -> dict[str, str]:
        """The values by the row's own names."""
        return dict(zip(row.in_path(), self.values, strict=True))


class Paths:
    """The paths of a table; fixed words come before free ones."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        self._root = _Node()
        for row in rows:
            node = self._root
            for part in row.path.strip("/").split("/"):
                if part.startswith("{"):
                    node.free = node.free or _Node()
                    node = node.free
                else:
                    node = node.words.setdefault(part, _Node())
            node.rows[row.method] = row

    def find(self, scope: Scope) -> PathMatch | None:
        """None where nothing is. Raises InvalidInput for what is no text."""
        return _found(self._root, segments(scope), ())


def is_within(scope: Scope) -> bool:
    """Whether a request is for one of these paths at all."""
    path: str = scope["path"]
    return path == f"/{ROOT}" or path.startswith(f"/{ROOT}/")


def segments(scope: Scope) -> tuple[str, ...]:
    """The parts of a path, each as it was meant; one slash at the end says nothing. Raises InvalidInput."""
    sent: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    parts = sent.partition(b"?")[0].removeprefix(b"/").removesuffix(b"/").split(b"/")
    try:
        named = tuple(unquote_to_bytes(part).decode("utf-8") for part in parts)
    except UnicodeDecodeError:
        raise InvalidInput("The path is no UTF-8.", advice="Encode names as UTF-8, then with %.") from None
    if any("\x00" in part for part in named):
        raise InvalidInput("The path has a NUL character.", advice="No name has one.")
    return named


def _found(node: _Node, parts: tuple[str, ...], values: tuple[str, ...]) -> PathMatch | None:
    if not parts:
        return PathMatch(node.rows, values) if node.rows else None
    first, rest = parts[0], parts[1:]
    if first in node.words and (found := _found(node.words[first], rest, values)):
        return found
    if node.free is not None and first:
        return _found(node.free, rest, (*values, first))
    return None
