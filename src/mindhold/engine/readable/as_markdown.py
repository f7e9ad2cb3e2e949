"""A page to read. What is remembered stands in it as text: it can be no heading, no list, no link and no markup."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from mindhold.engine.readable.parts import End, Head, Item, Part, Section, Talk
from mindhold.model.memory import Status
from mindhold.model.neutral import neutral
from mindhold.model.privacy import PERSONAL
from mindhold.model.scope import Scope

_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")
_BEGUN = re.compile(r"^([-+=:]|\d{1,9}[.)])")
_INDENT = "\u00a0"  # blanks before a line would make code of it


class MarkdownForm:
    """Times are the person's. The heading of a section is written when something stands below it."""

    ending = ".md"

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._heading = ""

    def written(self, part: Part) -> str:
        """The text for this part."""
        match part:
            case Head():
                return (
                    f"# Memories\n\n> **Personal data.** {PERSONAL}\n\nExported {self._time(part.created)}.\n"
                )
            case Scope():
                about = f"\n{plain(part.description)}\n" if part.description.strip() else ""
                off = " (switched off)" if not part.active else ""
                return f"\n## {plain(part.name, lines=False)}{off}\n{about}"
            case Section():
                self._heading = f"\n### {part.name.capitalize()}\n\n"
                return ""
            case Talk():
                named = plain(part.conversation, lines=False) if part.conversation else "Without a name"
                return f"{self._headed()}#### {named}\n\n"
            case Item():
                return self._headed() + self._item(part)
            case End():
                return f"\n---\n\n{part.memories} memories.\n"
            case _:
                return ""

    def _headed(self) -> str:
        heading, self._heading = self._heading, ""
        return heading

    def _item(self, item: Item) -> str:
        who = f"**{plain(item.speaker, lines=False)}** " if item.speaker else ""
        labels = [f"\\#{plain(tag, lines=False)}" for tag in item.tags]
        if item.status != Status.ACTIVE:
            labels.append(f"({item.status})")
        told = f" {' '.join(labels)}" if labels else ""
        return f"- {who}{self._time(item.occurred)}{told}\n\n  {plain(item.text)}\n\n"

    def _time(self, moment: datetime) -> str:
        return f"{moment.astimezone(self._zone):%Y-%m-%d %H:%M}"


def plain(text: str, *, lines: bool = True) -> str:
    """The text as itself, in an item of a list; without `lines` on one line."""
    rows = neutral(text).splitlines() or [""]
    if not lines:
        return _escaped(" ".join(" ".join(rows).split()))
    told = ""
    for before, line in zip(["", *rows], rows, strict=False):
        if told:
            told += "\\\n  " if before.strip() and line.strip() else "\n  " if line.strip() else "\n"
        told += _escaped(line.rstrip()) if line.strip() else ""
    return told


def _escaped(line: str) -> str:
    bare = line.lstrip()
    blanks = _INDENT * len(line[: len(line) - len(bare)].expandtabs(4))
    signs = _SIGNS.sub(r"\\\1", bare)
    return blanks + _BEGUN.sub(lambda found: f"{found[1][:-1]}\\{found[1][-1]}", signs)
