"""How past conversations are printed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.interfaces.cli.output import Console, display_width, local_time, neutral, one_line
from mindhold.model.errors import InvalidInput

if TYPE_CHECKING:
    from mindhold.operations.history_forms import ConversationView, StretchView, UtteranceView

SHORT_ID = 8  # characters of a session's id: a part that only it has is enough to name it
HASH, TELLING, LONGEST_TAIL = (
    32,
    3,
    4,
)  # characters of what is a hash, and of what tells something; parts of a path
MARGIN = 6  # columns for the numbers of lines
WIDE = 100  # columns, where it is no terminal
READ_FROM = {
    "archive": "read from the archive: the file is gone",
    "index": "as far as the index has it: the file is gone",
    "nowhere": "the file is gone, and nothing else has the words",
}


def print_heading(
    console: Console, one: ConversationView, zone: tzinfo | None, *, with_file: bool = True
) -> None:
    """What a conversation is called, when and where it was held, and where it lies."""
    console.line(console.style(one_line(one.title or one.session_id, most=200), bold=True))
    when = [local_time(moment, zone) for moment in (one.started, one.ended) if moment]
    where = f"part of {one.part_of}" if one.part_of else ""
    about = [" to ".join(dict.fromkeys(when)), one.project, one.model or "", where]
    if told := " · ".join(neutral(part) for part in about if part):
        console.line(f"  {told}")
    console.line(f"  {neutral(one.session_id)}")
    if with_file:
        console.line(f"  {neutral(one.file)}")


def print_stretch(console: Console, stretch: StretchView, *, marked: int | None = None) -> None:
    """Each with the line that it stands on; what tries to instruct is marked, and stays a quotation."""
    if told := READ_FROM.get(stretch.read_from):
        console.note(told)
    if stretch.earlier:
        console.line(f"{'…':>{MARGIN}}")
    who = stretch.conversation.source.upper()
    for one in stretch.utterances:
        _print(console, one, who=who if one.role == "CLAUDE" else one.role, marked=one.line == marked)
    if stretch.after is not None:
        console.line(f"{'…':>{MARGIN}}")


def _print(console: Console, one: UtteranceView, *, who: str, marked: bool) -> None:
    tool = f" [{neutral(one.tool)}]" if one.tool else ""
    head = f"{who}{tool}{' failed' if one.failed else ''}:"
    lines = console.paragraphs(one.text, indent=MARGIN + 4)
    # What was said in one short line stands beside who said it.
    room = console.width if console.on_terminal else WIDE
    beside = len(lines) == 1 and display_width(head + lines[0]) + MARGIN + 4 <= room
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


def folder_names(paths: Iterable[str], *, longest: int) -> dict[str, str]:
    """The last part of each path, for a table: as much of it as tells it from the others, in so many characters."""
    every = list(dict.fromkeys(paths))
    names = {path: _tail(path, 1) for path in every}
    for parts in range(2, LONGEST_TAIL + 1):
        for name in {name for name in names.values() if list(names.values()).count(name) > 1}:
            names |= {path: _tail(path, parts) for path in every if names[path] == name}
    return {path: _short(name, longest) for path, name in names.items()}


def project_named(given: str | None, *, server: str) -> str | None:
    """A path that is meant from here, such as `.`, as a whole one; everything else is a name.

    Raises InvalidInput for such a path where a server is asked.
    """
    if given is None or not given.startswith((".", "~")):
        return given
    from mindhold.interfaces.cli.placing import whole_path

    if given.replace("\\", "/").split("/")[0] not in (".", "..", "~"):
        return given
    if server:
        raise InvalidInput(
            f"The folder {given!r} is one of this machine.",
            advice="Name the project as `mindhold history projects` does.",
        )
    return str(whole_path(Path(given)))


def _tail(path: str, parts: int) -> str:
    """At least so many parts; a number, or a hidden folder, tells nothing without the one above it."""
    every = [part for part in path.replace("\\", "/").split("/") if part]
    while parts < len(every) and (len(every[-parts]) < TELLING or every[-parts].startswith(".")):
        parts += 1
    return "/".join(every[-parts:]) or path


def _short(name: str, longest: int) -> str:
    """Some programs call a project by a hash."""
    if len(name) >= HASH and set(name) <= set("0123456789abcdef"):
        return f"{name[:SHORT_ID]}…"
    return name if len(name) <= longest else f"…{name[1 - longest :]}"
