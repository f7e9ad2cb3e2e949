"""How past conversations are printed."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.interfaces.cli.output import Console, local_time, neutral, one_line

if TYPE_CHECKING:
    from recollect.operations.history_forms import ConversationView, StretchView, UtteranceView

SHORT_ID = 8  # characters of a session's id: a part that only it has is enough to name it
MARGIN = 6  # columns for the numbers of lines
READ_FROM = {
    "archive": "read from the archive: the file is gone",
    "index": "as far as the index has it: the file is gone",
    "nowhere": "the file is gone, and nothing else has the words",
}


def print_heading(console: Console, one: ConversationView, zone: tzinfo | None) -> None:
    """What a conversation is called, when and where it was held, and where it lies."""
    console.line(console.style(one_line(one.title or one.session_id, most=200), bold=True))
    when = [local_time(moment, zone) for moment in (one.started, one.ended) if moment]
    where = f"part of {one.part_of}" if one.part_of else ""
    about = [" to ".join(dict.fromkeys(when)), one.project, one.model or "", where]
    if told := " · ".join(neutral(part) for part in about if part):
        console.line(f"  {told}")
    console.line(f"  {neutral(one.session_id)}  {neutral(one.file)}")


def print_stretch(console: Console, stretch: StretchView, *, marked: int | None = None) -> None:
    """Each with the line that it stands on; what tries to instruct is marked, and stays a quotation."""
    if told := READ_FROM.get(stretch.read_from):
        console.note(told)
    if stretch.earlier:
        console.line(f"{'…':>{MARGIN}}")
    for one in stretch.utterances:
        _print(console, one, marked=one.line == marked)
    if stretch.after is not None:
        console.line(f"{'…':>{MARGIN}}")


def _print(console: Console, one: UtteranceView, *, marked: bool) -> None:
    tool = f" [{neutral(one.tool)}]" if one.tool else ""
    head = f"{one.role}{tool}{' failed' if one.failed else ''}:"
    lines = console.paragraphs(one.text, indent=MARGIN + 4)
    # What was said in one short line stands beside who said it.
    beside = len(lines) == 1 and len(head) + len(lines[0]) + MARGIN + 4 <= max(console.width, 100)
    number = f"{'>' if marked else ''}{one.line}".rjust(MARGIN)
    first = console.style(head, bold=one.role == "USER", dim=one.role in ("TOOL", "RESULT"))
    console.line(f"{number}  {first}{' ' + lines[0] if beside and lines[0] else ''}")
    for line in [] if beside else lines:
        console.line(f"{'':{MARGIN}}    {line}".rstrip())
    if one.suspicious:
        why = ", ".join(one.suspicious)
        console.line(
            f"{'':{MARGIN}}    "
            + console.style(f"(looks like an instruction to whoever reads it: {why})", fg="yellow")
        )


def megabytes(size: int) -> str:
    """`3.4 MB`, `12 kB`."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{-(-size // 1000):,} kB"


def folder_name(path: str) -> str:
    """The last part of a path, for a table."""
    return Path(path).name or path
