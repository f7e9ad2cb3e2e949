"""`mindhold show`, `list` and `tags`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import local_time, one_line
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.memory import Kind, Status

if TYPE_CHECKING:
    from mindhold.memories.views import LinkView, MemoryView


KINDS = [kind.value for kind in Kind]
STATUSES = [status.value for status in Status]
ORDERS = ["newest", "oldest", "important", "used", "changed"]
LONGEST_CELL = 72


@command("show", remote=True, examples=["mindhold show 01jxq3k", "mindhold show 01jxq3k --json"])
@click.argument("id")
@with_open_session
async def show(session: OpenSession, /, *, id: str) -> None:
    """Show a memory with its links and earlier versions. A prefix of its id is enough."""
    from mindhold.memories.filters import SHOW

    result = await session.run(SHOW, id=id)
    console = session.console
    if console.as_json(result):
        return
    console.text(result.memory.content)
    console.line()
    for name, value in _facts(session, result.memory):
        first, *rest = console.paragraphs(one_line(value, most=400), indent=13)
        console.line(f"{console.style(f'{name:<12}', bold=True)} {first}")
        for line in rest:
            console.line(f"{'':<13}{line}")
    if result.links:
        console.line(console.style("\nLinks", bold=True))
        for neighbour in result.links:
            arrow = link_arrow(neighbour.link, seen_from=result.memory.id)
            console.line(f"  {arrow} {neighbour.id}  {one_line(neighbour.content, most=LONGEST_CELL)}")
    if result.versions:
        console.line(console.style("\nEarlier versions", bold=True))
        for version in result.versions:
            when = local_time(version.amended, session.zone)
            console.line(f"  {version.number}. until {when}: {one_line(version.content, most=LONGEST_CELL)}")


@command(
    "list",
    remote=True,
    examples=[
        "mindhold list --tag staging -n 5",
        "mindhold list --status forgotten",
        "mindhold list --archived",
        "mindhold list --order important --when 'this month'",
    ],
)
@click.option("--scope", metavar="NAME", help="Only in this scope.")
@click.option("--everywhere", "-e", is_flag=True, help="In every scope, even in a project's folder.")
@words("--tag", "-t", "tags", metavar="TAG", help="Only memories with all these tags.")
@words("--kind", "-k", "kinds", choices=KINDS, metavar="KIND", help="Only these kinds.")
@click.option("--topic", metavar="WORDS", help="Only memories of this topic.")
@words(
    "--status", "statuses", choices=STATUSES, metavar="STATUS", help="List these instead of active memories."
)
@click.option("--archived", is_flag=True, help="List the archive instead of active memories.")
@click.option("--when", metavar="TIME", help="Only from this time.")
@click.option("--order", type=click.Choice(ORDERS), help="The order (default: newest).")
@click.option("--limit", "-n", type=int, metavar="N", help="How many at most (default: 20).")
@click.option("--after", metavar="ID", help="Show the page after this memory.")
@with_open_session
async def list_memories(session: OpenSession, /, *, everywhere: bool, archived: bool, **fields: Any) -> None:
    """List memories by filter, page by page.

    In a project's folder, only those of the project and of Global.
    """
    from mindhold.memories.filters import LIST

    fields["statuses"] = statuses_with_archive(fields["statuses"], archived=archived)
    in_project = session.running.loaded.in_project and not everywhere
    result = await session.run(LIST, everywhere=not in_project, **fields)
    console = session.console
    if console.as_json(result):
        return
    console.note(result.notice)
    if not result.memories:
        console.line("No memory matches.")
        return
    several = len(set(fields["statuses"])) > 1
    rows = []
    for memory in result.memories:
        date = local_time(memory.occurred, session.zone)[: len("2024-01-01")]
        status = [memory.status] if several else []
        content = one_line(memory.content, most=LONGEST_CELL)
        rows.append([memory.id, date, *status, memory.kind, memory.scope, content])
    console.table(["id", "date", *(["status"] if several else []), "kind", "scope", "content"], rows)
    if result.next and len(result.memories) < result.total:
        console.note(
            f"{len(result.memories)} of {result.total:,}; --after {result.memories[-1].id} shows the next."
        )
    if Status.ARCHIVED in fields["statuses"]:
        console.note("`mindhold unarchive ID` brings one back.")


@command("tags", remote=True, examples=["mindhold tags", "mindhold tags --scope work --json"])
@click.option("--scope", metavar="NAME", help="Only this scope, those above it and Global.")
@with_open_session
async def tags(session: OpenSession, /, *, scope: str | None) -> None:
    """List tags and how many memories have each."""
    from mindhold.memories.filters import TAGS

    result = await session.run(TAGS, scope=scope)
    if session.console.as_json(result):
        return
    session.console.note(result.notice)
    if not result.tags:
        session.console.line("There are no tags yet: `mindhold remember ... --tag NAME` gives one.")
    else:
        session.console.table(["tag", "memories"], list(result.tags.items()))


def link_arrow(link: LinkView, *, seen_from: str) -> str:
    """`caused_by →`, or `← caused_by` if the link points at the memory."""
    return f"{link.relation} →" if link.origin == seen_from else f"← {link.relation}"


def statuses_with_archive(statuses: tuple[str, ...], *, archived: bool) -> tuple[str, ...]:
    """Combine --archived and --status into statuses."""
    if archived and statuses:
        raise click.UsageError("--archived is `--status archived`: give one of them.")
    return (Status.ARCHIVED.value,) if archived else statuses


def _facts(session: OpenSession, memory: MemoryView) -> list[tuple[str, str]]:
    zone = session.zone
    used = f", last {local_time(memory.last_used, zone)}" if memory.last_used else ""
    shown = f", shown {memory.shown} times unasked" if memory.shown else ""
    facts = [
        ("id", memory.id),
        ("kind", memory.kind),
        ("scope", memory.scope),
        ("agent", memory.agent),
        ("status", memory.status),
        ("topic", memory.topic),
        ("tags", ", ".join(memory.tags)),
        ("keywords", ", ".join(memory.keywords)),
        ("about", local_time(memory.occurred, zone)),
        ("created", local_time(memory.created, zone)),
        ("updated", local_time(memory.updated, zone) if memory.updated != memory.created else ""),
        ("importance", f"{memory.importance:g}, confidence {memory.confidence:g}, trust {memory.trust:g}"),
        ("tier", memory.tier + (", anchor" if memory.anchor else "")),
        ("uses", f"{memory.uses}{used}"),
        ("utility", f"{memory.utility:g}, usefulness {memory.usefulness:g}{shown}"),
        ("verified", local_time(memory.verified, zone) if memory.verified else "not yet"),
        ("next upkeep", local_time(memory.review, zone) if memory.review else ""),
        ("tokens", str(memory.tokens)),
        ("supersedes", memory.supersedes or ""),
        ("merged from", ", ".join(memory.merged_from)),
        ("from", ", ".join(f"{name} {value}" for name, value in memory.provenance.items())),
        ("metadata", ", ".join(f"{name}={value}" for name, value in memory.metadata.items())),
        ("vector of", memory.embedded_by or "no model yet"),
    ]
    return [(name, value) for name, value in facts if value]
