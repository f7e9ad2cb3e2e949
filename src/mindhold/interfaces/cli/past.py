"""Reading a project's past conversations: the preview, the question and the report of `init` and `capture --past`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.output import Console, local_time, megabytes, neutral, one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import Refused

if TYPE_CHECKING:
    from mindhold.capture.past import CapturePastResult, PreviewPastResult

SECONDS_PER_MINUTE = 60
LONGEST_SAMPLE = 110


async def preview_past(session: OpenSession, folder: Path, *, limit: int | None) -> PreviewPastResult:
    """Return what reading the past conversations would mean. Raises Refused if they are switched off."""
    from mindhold.capture.past import PREVIEW_PAST

    return await session.run(PREVIEW_PAST, folder=str(folder), limit=limit)


async def capture_past(session: OpenSession, folder: Path, *, limit: int | None) -> CapturePastResult:
    """Read the past conversations, with a bar. An interrupted run goes on in the next one."""
    from mindhold.capture.past import CAPTURE_PAST

    session.running.warm()
    session.console.note("Ctrl-C stops it; `mindhold capture --past` goes on where it stopped.")
    return await session.run(CAPTURE_PAST, folder=str(folder), limit=limit)


async def read_past(cli: CliSession, folder: Path, *, wanted: bool | None) -> CapturePastResult | None:
    """Read the past conversations and print what was kept; None if there is nothing to read or nobody wants it.

    `wanted` True reads without a question, False doesn't even look; None asks on a terminal, and doesn't look elsewhere.
    """
    if wanted is False or (wanted is None and not cli.console.is_interactive):
        return None
    async with cli.open() as session:
        result = await _offer_past(session, folder, wanted=wanted)
    if result and not cli.console.json:
        print_captured(cli.console, result)
    return result


async def _offer_past(session: OpenSession, folder: Path, *, wanted: bool | None) -> CapturePastResult | None:
    console = session.console
    try:
        preview = await preview_past(session, folder, limit=None)
    except Refused as error:
        if wanted:
            raise
        console.note(error.message)
        return None
    if not preview.conversations:
        if wanted:
            console.note("No past conversation of this project waits to be read.")
        return None
    if not console.json:
        print_preview(session, preview)
    if wanted is None and not click.confirm("Shall they be read now?", default=False, err=True):
        console.note("`mindhold capture --past` reads them later.")
        return None
    return await capture_past(session, folder, limit=None)


def print_preview(session: OpenSession, preview: PreviewPastResult) -> None:
    """Print how many conversations there are, of which time, how long it takes, and a sample."""
    console = session.console
    days = [
        local_time(moment, session.zone)[: len("2024-01-01")]
        for moment in (preview.first, preview.last)
        if moment
    ]
    which = "" if preview.found == preview.conversations else f" of the {preview.found:,} of this project"
    console.line(
        f"{plural(preview.conversations, 'past conversation')}{which}, from "
        f"{' to '.join(dict.fromkeys(days))}, {megabytes(preview.bytes)}: {_duration(preview.seconds)}."
    )
    if preview.calls:
        console.line(f"The language model is asked {preview.calls:,} times at most.")
    if preview.sample:
        console.line("Of the newest, rules would keep for example:")
        for memory in preview.sample:
            console.line(f"  - {memory.kind}: {one_line(memory.content, most=LONGEST_SAMPLE)}")


def print_captured(console: Console, result: CapturePastResult) -> None:
    """Print what was captured."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in result.kinds.items())
    scope = f" for {neutral(result.scope)}" if result.scope else ""
    console.line(
        f"Read {plural(result.conversations, 'conversation')}: {plural(result.memories, 'memory')}{scope}"
        + (f" ({kinds})." if kinds else ".")
    )
    for file, problem in result.problems.items():
        console.warn(f"{one_line(Path(file).name, most=80)}: {problem}")
    if result.memories:
        console.note("`mindhold review` walks through them.")


def _duration(seconds: float) -> str:
    if seconds < SECONDS_PER_MINUTE:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / SECONDS_PER_MINUTE)} min"
