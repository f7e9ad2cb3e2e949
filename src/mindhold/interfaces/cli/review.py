"""`mindhold review`: the newest captured memories, one by one, by keyboard or by arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.capture.review import ListCapturesResult, ReviewResult
    from mindhold.memories.views import MemoryView

MOST = 1_000
USUAL_LIMIT = 20
LONGEST_CELL = 72
SHORT_ID = 8
KEYS = "[k]eep  [e]dit  [d]rop  [n]ever again  [s]kip  [u]ndo  [q]uit"
VERDICTS = {"k": "keep", "d": "drop", "n": "never", "e": "edit"}
OFFERED = (*VERDICTS, "s", "u", "q")
DONE_WORDS = {
    "keep": "Kept",
    "edit": "Changed",
    "drop": "Dropped",
    "never": "Dropped, with its like from now on",
}
FIELD_WORDS = {
    "kept": "kept",
    "edited": "changed",
    "dropped": "dropped",
    "rejected": "never again",
    "restored": "brought back",
}


@command(
    "review",
    remote=True,
    examples=[
        "mindhold review                        # one by one, on a terminal",
        "mindhold review --list --json",
        "mindhold review --keep 01jxq3k --drop 01jxq8d,01jxqa2 --never 01jxqc7",
        'mindhold review --edit 01jxq3k "Deploy with Helm, never by hand."',
        "mindhold review --undo 01jxqc7",
        "mindhold review --rejected",
    ],
)
@words("--keep", metavar="ID", help="Keep these.")
@words("--drop", metavar="ID", help="Forget these; --undo brings them back.")
@words("--never", metavar="ID", help="Forget these, and never capture their like again.")
@click.option("--edit", nargs=2, multiple=True, metavar="ID TEXT", help="Keep this one with another text.")
@words("--undo", metavar="ID", help="Bring back what was dropped; what was kept comes again.")
@click.option("--list", "listing", is_flag=True, help="List what waits, also on a terminal.")
@click.option("--rejected", is_flag=True, help="List what was rejected, which is not captured again.")
@words("--lift", metavar="ID", help="Let the like of these rejected memories be captured again.")
@click.option("--scope", metavar="NAME", help="Only in this scope.")
@click.option("--everywhere", "-e", is_flag=True, help="In every scope, even in a project's folder.")
@click.option(
    "--limit", "-n", type=int, default=USUAL_LIMIT, metavar="N", help="How many to list (default: 20)."
)
@with_open_session
async def review(
    session: OpenSession,
    /,
    *,
    listing: bool,
    rejected: bool,
    lift: tuple[str, ...],
    scope: str | None,
    everywhere: bool,
    limit: int,
    edit: tuple[tuple[str, str], ...],
    **verdicts: tuple[str, ...],
) -> None:
    """Review what was captured from conversations.

    Walks through the newest captures on a terminal; elsewhere, and with --json, it lists them. What you keep or change
    doesn't come again. What you drop is forgotten, and a line alike two dropped ones, or one "never again", is not
    captured any more.
    """
    if rejected or lift:
        await _rejections(session, lift)
        return
    in_project = session.running.loaded.in_project and not everywhere
    where: dict[str, Any] = {"scope": scope, "everywhere": not in_project}
    edits = [{"id": memory_id, "content": text} for memory_id, text in edit]
    if edits or any(verdicts.values()):
        await _carry_out(session, {**where, **verdicts, "edit": edits, "limit": limit})
        return
    from mindhold.capture.review import LIST_CAPTURES

    console = session.console
    by_keyboard = console.is_interactive and console.on_terminal and not listing
    result = await session.run(LIST_CAPTURES, **where, limit=MOST if by_keyboard else limit)
    if console.as_json(result):
        return
    if not result.captures:
        console.line("Nothing waits for review.")
    elif by_keyboard:
        await _walk(session, result)
    else:
        _print_list(session, result)


async def _carry_out(session: OpenSession, fields: dict[str, Any]) -> None:
    from mindhold.capture.review import REVIEW

    result: ReviewResult = await session.run(REVIEW, **fields)
    console = session.console
    if console.as_json(result):
        return
    parts = [f"{len(ids)} {word}" for field, word in FIELD_WORDS.items() if (ids := getattr(result, field))]
    console.line(f"{', '.join(parts)}; {result.waiting:,} left to review.")
    if result.dropped or result.rejected:
        console.note("`mindhold review --undo ID` brings one back.")
    console.note(result.notice)


async def _rejections(session: OpenSession, lift: tuple[str, ...]) -> None:
    from mindhold.capture.rejections import LIFT_REJECTIONS, LIST_REJECTIONS

    console = session.console
    if lift:
        lifted = await session.run(LIFT_REJECTIONS, ids=lift)
        if not console.as_json(lifted):
            console.line(f"Lifted {plural(len(lifted.lifted), 'rejection')}.")
        return
    result = await session.run(LIST_REJECTIONS)
    if console.as_json(result):
        return
    if not result.rejections:
        console.line("Nothing was rejected.")
        return
    rows = [
        [
            rejection.memory.id,
            "never" if rejection.never else "dropped",
            rejection.memory.kind,
            rejection.memory.scope,
            one_line(rejection.memory.content, most=LONGEST_CELL),
        ]
        for rejection in result.rejections
    ]
    console.table(["id", "how", "kind", "scope", "content"], rows)
    console.note("--lift ID lets its like be captured again; --undo ID also brings the memory back.")


def _print_list(session: OpenSession, result: ListCapturesResult) -> None:
    console = session.console
    rows = [
        [
            memory.id,
            local_time(memory.occurred, session.zone)[: len("2024-01-01")],
            memory.kind,
            memory.scope,
            one_line(memory.content, most=LONGEST_CELL),
        ]
        for memory in result.captures
    ]
    console.table(["id", "said", "kind", "scope", "content"], rows)
    if result.waiting > len(result.captures):
        console.note(f"{len(result.captures)} of {result.waiting:,}; --limit shows more.")
    console.note("--keep, --drop, --never and --edit decide; on a terminal, keys do.")


async def _walk(session: OpenSession, result: ListCapturesResult) -> None:
    """Show one memory after the other and carry out the key that is pressed, until the end or [q]."""
    console, memories = session.console, result.captures
    number = 0
    decided: dict[int, str] = {}
    while number < len(memories):
        memory = memories[number]
        _show(session, memory, number=number + 1, total=len(memories))
        key = _pressed_key()
        if key == "q":
            break
        if key == "u":
            number = await _undo(session, memories, decided, number)
            continue
        if verdict := VERDICTS.get(key):
            done = await _decide(session, memory, verdict)
            if not done:
                continue
            decided[number] = verdict
            console.line(f"  {DONE_WORDS[verdict]}.")
        else:
            console.line("  Skipped: it comes again.")
        number += 1
    counts = [
        f"{sum(verdict == each for each in decided.values())} {word}"
        for verdict, word in zip(
            VERDICTS.values(), ("kept", "dropped", "never again", "changed"), strict=True
        )
        if verdict in decided.values()
    ]
    left = result.waiting - len(decided)
    console.line(f"{', '.join(counts) or 'Nothing decided'}; {left:,} left to review.")


async def _decide(session: OpenSession, memory: MemoryView, verdict: str) -> bool:
    """Carry out a verdict; False if the edited text is empty."""
    from mindhold.capture.review import REVIEW

    if verdict != "edit":
        await session.run(REVIEW, **{verdict: [memory.id]}, limit=1)
        return True
    text = _edited_text(memory.content).strip()
    if not text:
        return False
    await session.run(REVIEW, edit=[{"id": memory.id, "content": text}], limit=1)
    return True


async def _undo(
    session: OpenSession, memories: list[MemoryView], decided: dict[int, str], number: int
) -> int:
    """Take back the last verdict; return the number of the memory to show next."""
    from mindhold.capture.review import REVIEW

    if not decided:
        session.console.line("  There is nothing to take back.")
        return number
    last = max(decided)
    verdict = decided.pop(last)
    await session.run(REVIEW, undo=[memories[last].id], limit=1)
    kept_text = " Its new text stays; `mindhold versions` shows the old one." if verdict == "edit" else ""
    session.console.line(f"  Taken back.{kept_text}")
    return last


def _show(session: OpenSession, memory: MemoryView, *, number: int, total: int) -> None:
    console = session.console
    said = local_time(memory.occurred, session.zone)[: len("2024-01-01")]
    console.line(
        console.style(f"\n{number} of {total}  {memory.kind} · {neutral(memory.scope)} · {said}", bold=True)
    )
    console.text(memory.content, indent=2)
    source = memory.provenance
    conversation, line = source.get("conversation") or "", source.get("line")
    place = f"conversation {conversation[:SHORT_ID]}" + (f", line {line}" if line else "")
    if conversation:
        console.line(console.style(f"  {neutral(place)}", dim=True))


def _pressed_key() -> str:
    """Return the key that was pressed; others than the offered ones are passed over. The end of input is [q]."""
    with _key_mode():
        click.echo(f"  {KEYS} ", nl=False)
        while True:
            pressed = _read_keys().casefold()  # several at once where somebody types ahead
            if key := next((char for char in pressed if char in OFFERED), ""):
                click.echo(key)
                return key


if sys.platform == "win32":

    @contextmanager
    def _key_mode() -> Iterator[None]:
        yield

    def _read_keys() -> str:
        return click.getchar()

else:
    import termios
    import tty

    @contextmanager
    def _key_mode() -> Iterator[None]:
        """Pass keys on at once and don't show them. Nothing that was typed before is discarded."""
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

    def _read_keys() -> str:
        typed = os.read(sys.stdin.fileno(), 32)
        return "q" if typed in (b"", b"\x04") else typed.decode("utf-8", "replace")


def _edited_text(content: str) -> str:
    """Let the user edit the text on one line, where the terminal can; an empty line leaves it as it is."""
    with suppress(ImportError):
        import readline

        flat = " ".join(content.split())
        readline.set_startup_hook(lambda: readline.insert_text(flat))
    try:
        text: str = click.prompt("  New text", default=content, show_default=False)
    finally:
        with suppress(ImportError):
            import readline

            readline.set_startup_hook(None)
    return text
