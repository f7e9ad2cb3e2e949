"""`mindhold forget` and `mindhold unarchive`: hide, restore or erase memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import Console, neutral, plural
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.errors import Refused
from mindhold.model.memory import Status

if TYPE_CHECKING:
    from mindhold.memories.forget import ForgetResult
    from mindhold.memories.views import ReceiptView


PAGE = 1000


@command(
    "forget",
    remote=True,
    examples=[
        "mindhold forget 01jxq3k",
        "mindhold forget 01jxq3k --undo",
        "mindhold forget --tag scratch --yes",
        "mindhold forget 01jxq3k --hard    # for good; prints the proof",
    ],
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@words("--tag", "-t", "tags", metavar="TAG", help="Everything with all these tags.")
@click.option("--topic", metavar="WORDS", help="Everything of this topic.")
@click.option("--scope", metavar="NAME", help="Everything in this scope.")
@click.option("--hard", is_flag=True, help="Remove for good, with versions, links, vectors and index rows.")
@click.option("--force", is_flag=True, help="Also forget anchors and permanent memories.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@click.option("--undo", is_flag=True, help="Bring back what was forgotten (not --hard) or archived.")
@with_open_session
async def forget(
    session: OpenSession,
    /,
    *,
    ids: tuple[str, ...],
    hard: bool,
    force: bool,
    yes: bool,
    undo: bool,
    **filters: Any,
) -> None:
    """Hide memories everywhere, or remove them for good.

    --undo brings back what was hidden, or archived for its age.
    """
    from mindhold.memories.forget import FORGET

    if undo and hard:
        raise click.UsageError("What was removed --hard can't be brought back.")
    if undo:
        await restore_memories(session, list(ids) or await _forgotten(session, filters))
        return
    if (hard or any(filters.values())) and not yes:
        count = len(set(ids)) if ids else await count_of(session, filters, hidden=hard)
        if count or hard:
            confirm(session.console, f"{'Remove for good' if hard else 'Forget'} {plural(count, 'memory')}?")
    try:
        result = await session.run(FORGET, ids=ids, hard=hard, force=force, confirm=True, **filters)
    except Refused as error:
        raise type(error)(error.message, advice=error.advice.replace("`force`", "--force")) from error
    if session.console.as_json(result):
        return
    _print(session.console, result)


def confirm(console: Console, question: str, *, yes: bool = False) -> None:
    """Ask on the terminal, unless `yes`. Raises Refused on a no, and without a terminal."""
    if yes:
        return
    if not console.is_interactive:
        raise Refused(f"{question} Nobody is there to ask.", advice="Say --yes.")
    if not click.confirm(question, err=True):
        raise Refused("The answer was no: nothing was done.")


async def count_of(session: OpenSession, filters: dict[str, Any], *, hidden: bool) -> int:
    """Count the memories that match; `hidden` includes those that recall doesn't find."""
    from mindhold.memories.filters import LIST

    if not any(filters.values()):
        return 0
    statuses = list(Status) if hidden else [Status.ACTIVE]
    page = await session.run(LIST, everywhere=True, statuses=statuses, limit=1, **filters)
    return page.total


def print_receipt(console: Console, receipt: ReceiptView) -> None:
    """Print how much was removed from each place and how much remains."""
    places = list(dict.fromkeys([*receipt.removed, *receipt.remaining]))
    console.table(
        ["place", "removed", "remaining"],
        [[place, receipt.removed.get(place, 0), receipt.remaining.get(place, 0)] for place in places],
    )
    remaining = {place for place, count in receipt.remaining.items() if count}
    if remaining == {"documents"}:
        console.line("Something is LEFT in a document of the project: remove the line there.")
    else:
        console.line("Something is LEFT: run `mindhold doctor --scrub`." if remaining else "Nothing is left.")


async def restore_memories(session: OpenSession, ids: list[str]) -> None:
    """Bring back forgotten or archived memories."""
    from mindhold.memories.forget import UNFORGET

    if not ids:
        raise click.UsageError(
            "Say which to bring back; `mindhold list --status forgotten` or `--archived` shows them."
        )
    result = await session.run(UNFORGET, ids=ids)
    if session.console.as_json(result):
        return
    session.console.line(f"Brought back {plural(len(result.memories), 'memory')}.")
    for memory in result.memories:
        session.console.line(f"  {memory.id}")
    if result.notice:
        session.console.line(neutral(result.notice))


async def _forgotten(session: OpenSession, filters: dict[str, Any]) -> list[str]:
    from mindhold.memories.filters import LIST

    if not any(filters.values()):
        return []
    ids: list[str] = []
    after: str | None = None
    while True:
        page = await session.run(LIST, statuses=[Status.FORGOTTEN], limit=PAGE, after=after, **filters)
        ids.extend(memory.id for memory in page.memories)
        if (after := page.next) is None:
            return ids


def _print(console: Console, result: ForgetResult) -> None:
    if result.kept:
        console.note(f"{plural(len(result.kept), 'memory')} kept for good stayed: --force takes them too.")
    if not result.count:
        console.line(f"{'Nothing else' if result.kept else 'Nothing'} matches: nothing was forgotten.")
        return
    console.line(f"{'Removed' if result.hard else 'Forgot'} {plural(result.count, 'memory')}.")
    for memory_id in result.forgotten:
        console.line(f"  {memory_id}")
    if result.receipt:
        print_receipt(console, result.receipt)
        console.note('`mindhold doctor --scrub --phrase "..."` proves that the file holds no such bytes.')
    else:
        console.note("`mindhold forget ID --undo` brings it back.")
    if result.backup:
        console.note(f"All that was in the scope is in backups/{result.backup}.")
    console.note(result.notice)


@command("unarchive", remote=True, examples=["mindhold unarchive 01jxq3k", "mindhold list --archived"])
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_open_session
async def unarchive(session: OpenSession, /, *, ids: tuple[str, ...]) -> None:
    """Bring memories back from the archive.

    The same as `mindhold forget --undo`.
    """
    await restore_memories(session, list(ids))
