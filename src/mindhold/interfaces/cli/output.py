"""Printing: answers on stdout, everything else on stderr; colour and progress bars only on terminals."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from mindhold.interfaces.runtime import ProgressCallback
    from mindhold.operations import Output


WIDEST = 100
SHORT = 20  # columns of what is never folded in a table: dates, numbers, ids
BYTES = ("index", "download")  # steps that are counted in bytes
# What could steer a terminal or hide what stands there: controls, escapes, direction overrides, lone surrogates.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_STEERING_IN_JSON = re.compile(_STEERING.pattern.replace("\x00-\x08\x0b-\x1f", ""))

_SEEN_FROM_THE_TARGET = {
    "related": "related",
    "caused_by": "causes",
    "resolved_by": "resolves",
    "part_of": "has as a part",
    "contradicts": "contradicted by",
    "superseded_by": "supersedes",
}


class ReaderGone(Exception):
    """Whoever read our output has had enough, as in `mindhold list | head -1`."""


@dataclass
class Console:
    """Prints as the global options ask. `plain` is without colour."""

    plain: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def line(self, text: str = "") -> None:
        """One line, or several, of the answer."""
        click.echo(text, color=self._colour)

    def note(self, text: str) -> None:
        """About the answer, for people: not with --json or --quiet."""
        if text and not (self.quiet or self.json):
            click.echo(self.style(neutral(text), dim=True), err=True, color=self._colour)

    def warn(self, text: str, *, label: str = "") -> None:
        """What went wrong; always told."""
        head = self.style(label, fg="red", bold=True) + " " if label else ""
        click.echo(head + neutral(text), err=True, color=self._colour)

    def document(self, value: Output | dict[str, Any]) -> None:
        """The answer as JSON."""
        ready = value if isinstance(value, dict) else value.model_dump(mode="json")
        text = json.dumps(ready, ensure_ascii=not _speaks_utf8(), indent=2, default=str)
        click.echo(_STEERING_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text), color=False)

    def record(self, value: Mapping[str, Any]) -> None:
        """One JSON object on a line of its own, there at once for who waits for it."""
        text = json.dumps(value, ensure_ascii=not _speaks_utf8(), separators=(",", ":"), default=str)
        click.echo(_STEERING_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text), color=False)
        sys.stdout.flush()

    def style(self, text: str, **how: Any) -> str:
        """Styled; what isn't for a terminal loses it when printed."""
        return text if self.plain else click.style(text, **how)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Aligned columns."""
        cells = [[neutral(str(cell)) for cell in row] for row in rows]
        if self.on_terminal:
            self._rich_table(heads, cells)
            return
        widths = [max(map(display_width, column)) for column in zip(heads, *cells, strict=True)]
        for row in (heads, *cells):
            padded = [
                cell.replace("\n", " ") + " " * (width - display_width(cell))
                for cell, width in zip(row, widths, strict=True)
            ]
            self.line("  ".join(padded).rstrip())

    def paragraphs(self, text: str, *, indent: int, most_lines: int | None = None) -> list[str]:
        """The text in lines, wrapped on a terminal, with what could steer the terminal made visible."""
        lines: list[str] = []
        for line in neutral(text).expandtabs(4).splitlines() or [""]:
            lines.extend(self._wrapped(line, self.width - indent))
        if most_lines is not None and len(lines) > most_lines:
            lines = [*lines[:most_lines], f"… {len(lines) - most_lines} more lines (--full shows them)"]
        return lines

    def room(self, *beside: str, otherwise: int) -> int:
        """Columns that are left on a terminal's line for a text behind those, two apart."""
        if not self.on_terminal:
            return otherwise
        taken = sum(display_width(text) + 2 for text in beside)
        return max(SHORT, shutil.get_terminal_size((80, 24)).columns - taken)

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def width(self) -> int:
        return min(WIDEST, shutil.get_terminal_size((80, 24)).columns)

    @contextmanager
    def progress(self) -> Iterator[ProgressCallback]:
        """Bars on stderr's terminal, made when the first step is told."""
        bars = _Bars(self)
        try:
            yield bars
        finally:
            bars.close()

    @property
    def _colour(self) -> bool | None:
        return False if self.plain else None

    def _wrapped(self, line: str, width: int) -> list[str]:
        if not self.on_terminal:
            return [line]
        width = max(20, width)
        if display_width(line) > len(line):
            return _by_columns(line, width)
        return textwrap.wrap(line, width, replace_whitespace=False, break_on_hyphens=False) or [""]

    def _rich_table(self, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich.console import Console as Screen
        from rich.table import Table
        from rich.text import Text

        style = "none" if self.plain else "bold"
        table = Table(box=None, header_style=style, pad_edge=False, padding=(0, 1))
        screen = Screen(no_color=self.plain, highlight=False)
        for head, kept in zip(heads, _kept_whole(heads, cells, screen.width), strict=True):
            table.add_column(head, overflow="fold", no_wrap=kept)
        for row in cells:
            table.add_row(*[Text(cell) for cell in row])
        screen.print(table)


class _Bars:
    """A bar a step; nothing unless stderr is a terminal, but -v names each step once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID | None] = {}

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if self._console.quiet:
            return
        if not sys.stderr.isatty():
            if step not in self._tasks and self._console.verbose:
                self._console.warn(f"{step} …")
            self._tasks.setdefault(step, None)
            return
        progress = self._progress or self._start()
        task = self._tasks.get(step)
        if task is None:
            task = self._tasks[step] = progress.add_task(step, total=total, counted="")
        counted = _counted(done, total, in_bytes=step in BYTES)
        progress.update(task, completed=done, total=total, counted=counted)

    def close(self) -> None:
        """Take the bars off the screen."""
        if self._progress:
            self._progress.stop()
            self._progress = None

    def _start(self) -> Progress:
        from rich.console import Console as Screen
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counted]}  {task.elapsed:.0f} s", markup=False),
            console=Screen(stderr=True, no_color=self._console.plain),
            transient=True,
        )
        self._progress.start()
        return self._progress


def _kept_whole(heads: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Which columns aren't folded. The first has what is copied, such as ids; where all isn't to be had, only that."""
    widths = [max(map(display_width, column)) for column in zip(heads, *cells, strict=True)]
    kept = [most <= (SHORT if number else width // 2) for number, most in enumerate(widths)]
    taken = sum(most + 2 for most, whole in zip(widths, kept, strict=True) if whole)
    fits = taken + SHORT * kept.count(False) <= width
    return kept if fits else [number == 0 for number in range(len(widths))]


def _counted(done: int, total: int | None, *, in_bytes: bool) -> str:
    """`13 of 66 MB`, `192 of 1,900`."""
    if in_bytes:
        return f"{done / 1e6:,.1f}" + (f" of {total / 1e6:,.1f} MB" if total else " MB")
    return f"{done:,} of {total:,}" if total else f"{done:,}"


def neutral(text: str) -> str:
    """Remembered text is data: what could steer a terminal is spelled out instead."""
    return _STEERING.sub(_spelled, text)


def _by_columns(text: str, width: int) -> list[str]:
    """In lines of so many columns: at spaces, and between wide characters, which have none."""
    lines: list[str] = []
    line, used = "", 0
    for char in text:
        taken = display_width(char)
        if used + taken > width:
            head, _, word = line.rpartition(" ")
            if head.strip() and char != " " and display_width(word) == len(word):
                lines.append(head.rstrip())
                line = word
            else:
                lines.append(line.rstrip())
                line, char = "", char.lstrip()
            used = display_width(line)
            taken = display_width(char)
        line, used = line + char, used + taken
    return [*lines, line]


def display_width(text: str) -> int:
    """Columns on a screen: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def one_line(text: str, *, most: int = 100) -> str:
    """The beginning, on one line."""
    flat = " ".join(neutral(text).split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def local_time(moment: datetime, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """For people, in their zone; None is the machine's."""
    return f"{moment.astimezone(zone):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"


def plural(count: int, noun: str) -> str:
    """`1 memory`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def relation_words(relation: str, *, outward: bool) -> str:
    """What the memory at hand is to the one at the other end: `resolved by` it, or, the other way round, `resolves` it."""
    return relation.replace("_", " ") if outward else _SEEN_FROM_THE_TARGET.get(relation, relation)


def price(dollars: float) -> str:
    """`$1.20`, or that it is next to nothing."""
    return f"${dollars:,.2f}" if dollars >= 0.01 else "less than a cent" if dollars else "free of charge"


def make_streams_safe() -> None:
    """A character that the terminal can't show becomes a question mark instead of a failure."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def silence_stdout() -> None:
    """After a broken pipe: so that the interpreter's last flush fails nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _speaks_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


def megabytes(size: int) -> str:
    """`3.4 MB`, `12 kB`."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{-(-size // 1000):,} kB"
