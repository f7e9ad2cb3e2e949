"""`mindhold timeline`, `versions`, `reconstruct` and `why`: memories over time, and their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.memories import KINDS, LONGEST_CELL, link_arrow
from mindhold.interfaces.cli.output import local_time, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.history.origin import PlaceView
    from mindhold.memories.versions import StepView


@command(
    "timeline",
    remote=True,
    examples=["mindhold timeline last week", "mindhold timeline --when 'March 2024' --kind decision"],
)
@click.argument("time", nargs=-1)
@click.option("--when", metavar="TIME", help="The same as TIME.")
@click.option("--scope", metavar="NAME", help="Only in this scope.")
@words("--tag", "-t", "tags", metavar="TAG", help="Only memories with all these tags.")
@words("--kind", "-k", "kinds", choices=KINDS, metavar="KIND", help="Only these kinds.")
@click.option("--limit", "-n", type=int, metavar="N", help="How many memories at most (default: 50).")
@with_open_session
async def timeline(
    session: OpenSession, /, *, time: tuple[str, ...], when: str | None, **fields: Any
) -> None:
    """List memories by the day they are about."""
    from mindhold.memories.timeline import TIMELINE

    if time and when:
        raise click.UsageError("Give a TIME or --when, not both.")
    result = await session.run(TIMELINE, when=when or " ".join(time) or None, **fields)
    console = session.console
    if console.as_json(result):
        return
    console.note(result.notice)
    if result.timeframe:
        console.note(f"{result.timeframe.words} ({result.timeframe.phrase!r})")
    if not result.days:
        console.line("Nothing is remembered of that time.")
    for day in result.days:
        console.line(
            console.style(f"{day.date:%Y-%m-%d}", bold=True) + f"  {plural(len(day.memories), 'memory')}"
        )
        for memory in day.memories:
            clock = local_time(memory.occurred, session.zone)[-len("00:00") :]
            console.line(f"  {clock}  {memory.kind:<10} {one_line(memory.content, most=LONGEST_CELL)}")


DOCUMENT = "document:"  # prefix of the conversation that holds the parts of a long text


@command(
    "versions", remote=True, examples=["mindhold versions 01jxq3k", "mindhold versions 01jxq3k -n 5 --json"]
)
@click.argument("id")
@click.option("--limit", "-n", type=int, metavar="N", help="How many of the latest at most (default: 50).")
@with_open_session
async def versions(session: OpenSession, /, **fields: Any) -> None:
    """Show every version of a memory, and who changed it when."""
    from mindhold.memories.versions import VERSIONS

    result = await session.run(VERSIONS, **fields)
    console = session.console
    if console.as_json(result):
        return
    if result.earlier:
        console.note(f"{result.earlier} earlier ones are not shown.")
    for version in result.versions:
        until = "now" if version.until is None else local_time(version.until, session.zone)
        head = f"{version.number}. {local_time(version.since, session.zone)} to {until}, by {version.by}"
        console.line(console.style(head, bold=True))
        if version.changed:
            console.line(f"   changed: {', '.join(version.changed)}")
        console.text(version.content, indent=3)
        importance = f"importance {version.importance:g}"
        about = (version.kind, version.topic, importance, ", ".join(version.keywords))
        console.line(f"   {one_line('; '.join(filter(None, about)), most=200)}")
    if result.supersedes:
        console.line(f"It took the place of {result.supersedes}.")
    for later in result.superseded_by:
        console.line(f"Its place was taken by {later}.")


@command(
    "reconstruct",
    remote=True,
    examples=["mindhold reconstruct storage", 'mindhold reconstruct "which database" --scope shop'],
)
@click.argument("topic", nargs=-1, required=True)
@click.option("--scope", metavar="NAME", help="Only this scope, those above it and Global.")
@click.option("--budget", "token_budget", type=int, metavar="N", help="The most tokens (default: 2000).")
@with_open_session
async def reconstruct(session: OpenSession, /, *, topic: tuple[str, ...], **fields: Any) -> None:
    """Show the decisions on a topic over time."""
    from mindhold.memories.versions import RECONSTRUCT

    result = await session.run(RECONSTRUCT, topic=" ".join(topic), **fields)
    console = session.console
    if console.as_json(result):
        return
    console.note(result.notice)
    for step in result.decisions:
        mark = "  (superseded)" if step.superseded else ""
        console.line(console.style(f"{local_time(step.occurred, session.zone)}  {step.id}{mark}", bold=True))
        console.text(step.content, indent=2)
        for relation in _relations(step):
            console.line(f"  {relation}")


def _relations(step: StepView) -> list[str]:
    relations = [
        ("supersedes", step.supersedes),
        ("superseded by", step.superseded_by),
        ("contradicts", step.contradicts),
        ("contradicted by", step.contradicted_by),
    ]
    lines = [f"{word} {', '.join(ids)}" for word, ids in relations if ids]
    if step.versions:
        lines.append(f"amended {step.versions} times: `mindhold versions {step.id}`")
    for neighbour in step.linked:
        text = f"{neighbour.kind}: {one_line(neighbour.content, most=LONGEST_CELL)}"
        lines.append(f"{link_arrow(neighbour.link, seen_from=step.id)} {neighbour.id}  {text}")
    return lines


@command("why", examples=["mindhold why 01jxq3k", "mindhold why 01jxq3k -n 40 --json"])
@click.argument("id")
@click.option(
    "--limit", "-n", type=int, metavar="N", help="How many messages around it at most (default: 12)."
)
@with_open_session
async def why(session: OpenSession, /, **fields: Any) -> None:
    """Show where a memory comes from: conversation, file, line."""
    from mindhold.history.origin import ORIGIN
    from mindhold.interfaces.cli.history import print_heading, print_stretch

    result = await session.run(ORIGIN, **fields)
    console = session.console
    if console.as_json(result):
        return
    console.line(console.style(f"{result.id}  {result.kind}, {result.scope}", bold=True))
    console.text(result.content, indent=2)
    if result.made_of:
        console.line(f"It was made of {', '.join(result.made_of)}.")
    for place in result.places:
        console.line()
        if place.id != result.id:
            console.line(f"{place.id}: {one_line(place.content, most=LONGEST_CELL)}")
        console.line(f"{local_time(place.occurred, session.zone)}  {_where(place)}")
        if place.stretch:
            print_heading(console, place.stretch.conversation, session.zone, with_file=not place.file)
            print_stretch(console, place.stretch, marked=place.line)
        for turn in place.turns:
            mark = ">" if turn.id == place.id else " "
            console.line(
                f"{mark} {local_time(turn.occurred, session.zone)}  {one_line(turn.content, most=200)}"
            )
    if result.notice:
        console.line(one_line(result.notice, most=500))


def _where(place: PlaceView) -> str:
    if place.file:
        return one_line(f"{place.file}:{place.line}" if place.line else place.file, most=500)
    if (place.conversation or "").startswith(DOCUMENT):
        return f"in a longer text{one_line(f', {place.source}', most=200) if place.source else ''}"
    return one_line(f"in the conversation {place.conversation}", most=200)
