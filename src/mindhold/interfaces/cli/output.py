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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
DOUBTFUL = "Nothing clearly answers. The nearest, doubtful:"
SHORT = 20  # table cells up to this width are never folded: dates, numbers, ids
BYTES = ("index", "download")  # progress steps counted in bytes
# Characters that could control a terminal or hide text: controls, escapes, direction overrides, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_UNSAFE_IN_JSON = re.compile(_UNSAFE.pattern.replace("\x00-\x08\x0b-\x1f", ""))

_INVERSE_RELATIONS = {
    "related": "related",
    "caused_by": "causes",
    "resolved_by": "resolves",
    "part_of": "has as a part",
    "contradicts": "contradicted by",
    "superseded_by": "supersedes",
}


class ReaderGone(Exception):
    """The reader of stdout closed the pipe, as in `mindhold list | head -1`."""


@dataclass
class Console:
    """Prints according to the global options. `plain` means no colour."""

    plain: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def line(self, text: str = "") -> None:
        """Print one or more lines of the answer."""
        click.echo(text, color=self._colour)

    def note(self, text: str) -> None:
        """Print a remark for people on stderr; not with --json or --quiet."""
        if text and not (self.quiet or self.json):
            click.echo(self.style(neutral(text), dim=True), err=True, color=self._colour)

    def warn(self, text: str, *, label: str = "") -> None:
        """Print a problem on stderr, always."""
        head = self.style(label, fg="red", bold=True) + " " if label else ""
        click.echo(head + neutral(text), err=True, color=self._colour)

    def document(self, value: Output | dict[str, Any]) -> None:
        """Print the answer as JSON."""
        document = value if isinstance(value, dict) else value.model_dump(mode="json")
        click.echo(_safe_json(document, indent=2), color=False)

    def as_json(self, answer: Output | dict[str, Any]) -> bool:
        """Print the answer as JSON if --json was given; return whether it was."""
        if self.json:
            self.document(answer)
        return self.json

    def record(self, value: Mapping[str, Any]) -> None:
        """Print one JSON object on one line and flush."""
        click.echo(_safe_json(value, separators=(",", ":")), color=False)
        sys.stdout.flush()

    def style(self, text: str, **how: Any) -> str:
        """Style the text; click removes the style when stdout is no terminal."""
        return text if self.plain else click.style(text, **how)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print aligned columns."""
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

    def text(self, text: str, *, indent: int = 0) -> None:
        """Print a text, indented, wrapped on a terminal."""
        for line in self.paragraphs(text, indent=indent):
            self.line(" " * indent + line)

    def facts(self, facts: Iterable[tuple[str, str]], *, width: int) -> None:
        """Print names and values in two columns; those without a value are left out."""
        for name, value in facts:
            if value:
                self.line(f"{self.style(f'{name:<{width}}', bold=True)} {neutral(value)}")

    def paragraphs(self, text: str, *, indent: int, most_lines: int | None = None) -> list[str]:
        """Split the text into lines, wrapped on a terminal, with unsafe characters made visible."""
        lines: list[str] = []
        for line in neutral(text).expandtabs(4).splitlines() or [""]:
            lines.extend(self._wrap(line, self.width - indent))
        if most_lines is not None and len(lines) > most_lines:
            lines = [*lines[:most_lines], f"… {len(lines) - most_lines} more lines (--full shows them)"]
        return lines

    def room(self, *cells: str, otherwise: int) -> int:
        """Return the columns that remain on a terminal line after these cells, each followed by two spaces."""
        if not self.on_terminal:
            return otherwise
        used = sum(display_width(text) + 2 for text in cells)
        return max(SHORT, shutil.get_terminal_size((80, 24)).columns - used)

    @property
    def is_interactive(self) -> bool:
        """Whether a person can answer questions."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty()

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def width(self) -> int:
        return min(WIDEST, shutil.get_terminal_size((80, 24)).columns)

    @contextmanager
    def progress(self) -> Iterator[ProgressCallback]:
        """Show progress bars on stderr, from the first reported step on."""
        bars = _Bars(self)
        try:
            yield bars
        finally:
            bars.close()

    @property
    def _colour(self) -> bool | None:
        return False if self.plain else None

    def _wrap(self, line: str, width: int) -> list[str]:
        if not self.on_terminal:
            return [line]
        width = max(20, width)
        if display_width(line) > len(line):
            return _wrap_by_columns(line, width)
        return textwrap.wrap(line, width, replace_whitespace=False, break_on_hyphens=False) or [""]

    def _rich_table(self, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich.console import Console as Screen
        from rich.table import Table
        from rich.text import Text

        style = "none" if self.plain else "bold"
        table = Table(box=None, header_style=style, pad_edge=False, padding=(0, 1))
        screen = Screen(no_color=self.plain, highlight=False)
        for head, no_wrap in zip(heads, _unfolded_columns(heads, cells, screen.width), strict=True):
            table.add_column(head, overflow="fold", no_wrap=no_wrap)
        for row in cells:
            table.add_row(*[Text(cell) for cell in row])
        screen.print(table)


class _Bars:
    """One progress bar per step on a terminal; elsewhere only -v prints each step once."""

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
        counted = _format_count(done, total, in_bytes=step in BYTES)
        progress.update(task, completed=done, total=total, counted=counted)

    def close(self) -> None:
        """Remove the bars from the screen."""
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


def _unfolded_columns(heads: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Return which columns are not folded; if too many are, only the first, whose ids people copy."""
    widths = [max(map(display_width, column)) for column in zip(heads, *cells, strict=True)]
    unfolded = [most <= (SHORT if number else width // 2) for number, most in enumerate(widths)]
    used = sum(most + 2 for most, whole in zip(widths, unfolded, strict=True) if whole)
    fits = used + SHORT * unfolded.count(False) <= width
    return unfolded if fits else [number == 0 for number in range(len(widths))]


def _format_count(done: int, total: int | None, *, in_bytes: bool) -> str:
    """`13 of 66 MB`, `192 of 1,900`."""
    if in_bytes:
        return f"{done / 1e6:,.1f}" + (f" of {total / 1e6:,.1f} MB" if total else " MB")
    return f"{done:,} of {total:,}" if total else f"{done:,}"


def neutral(text: str) -> str:
    """Replace characters that could control a terminal by their codes."""
    return _UNSAFE.sub(_spell, text)


def _wrap_by_columns(text: str, width: int) -> list[str]:
    """Break the text at spaces, and between wide characters, into lines of at most `width` columns."""
    lines: list[str] = []
    line, used = "", 0
    for char in text:
        columns = display_width(char)
        if used + columns > width:
            head, _, word = line.rpartition(" ")
            if head.strip() and char != " " and display_width(word) == len(word):
                lines.append(head.rstrip())
                line = word
            else:
                lines.append(line.rstrip())
                line, char = "", char.lstrip()
            used = display_width(line)
            columns = display_width(char)
        line, used = line + char, used + columns
    return [*lines, line]


def display_width(text: str) -> int:
    """Count the columns on a screen: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def one_line(text: str, *, most: int = 100) -> str:
    """Shorten the text to one line of at most `most` characters."""
    flat = " ".join(neutral(text).split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def local_time(moment: datetime, zone: tzinfo | None, *, seconds: bool = False) -> str:
    """Format a time in the user's zone; None means the machine's."""
    return f"{moment.astimezone(zone):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"


def plural(count: int, noun: str) -> str:
    """`1 memory`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def relation_words(relation: str, *, outward: bool) -> str:
    """Name a relation as seen from the current memory: `resolved by`, or `resolves` if the link points at it."""
    return relation.replace("_", " ") if outward else _INVERSE_RELATIONS.get(relation, relation)


def price(dollars: float) -> str:
    """`$1.20`, `less than a cent` or `free of charge`."""
    return f"${dollars:,.2f}" if dollars >= 0.01 else "less than a cent" if dollars else "free of charge"


def make_streams_safe() -> None:
    """Print a question mark for a character that the terminal can't show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def silence_stdout() -> None:
    """Send stdout to nowhere after a broken pipe, so that the interpreter's last flush doesn't fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _safe_json(value: Mapping[str, Any], **layout: Any) -> str:
    speaks_utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not speaks_utf8, default=str, **layout)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def megabytes(size: int) -> str:
    """`3.4 MB`, `12 kB`."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{-(-size // 1000):,} kB"
