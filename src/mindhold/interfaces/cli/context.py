"""`mindhold context`, `reflect` and `explore`: the start and end of a conversation, and chains of causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.amend import RELATIONS
from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import one_line, plural
from mindhold.interfaces.cli.remember import KINDS, text_or_stdin
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.memories.links import NodeView


LONGEST_CELL = 100


@command(
    "context",
    remote=True,
    examples=[
        "mindhold context",
        "mindhold context --budget 500 --kind preference,decision",
        "mindhold context --conversation monday",
    ],
)
@click.option("--budget", "token_budget", type=int, metavar="TOKENS", help="The most tokens (default: 2000).")
@words("--kind", "-k", "kinds", choices=KINDS, metavar="KIND", help="Only these kinds, besides anchors.")
@click.option("--conversation", metavar="NAME", help="Add the working memory of this conversation.")
@click.option("--scope", metavar="NAME", help="Only this scope, those above it and Global.")
@with_open_session
async def context(session: OpenSession, /, **fields: Any) -> None:
    """Print what an agent gets when a conversation begins."""
    from mindhold.memories.context import CONTEXT

    result = await session.run(CONTEXT, **fields)
    console = session.console
    if console.as_json(result):
        return
    if not result.text:
        console.line("There is nothing to have in mind yet.")
        return
    console.text(result.text)
    console.note(
        f"{plural(result.tokens, 'token')}: {len(result.core)} of core memory, {len(result.working)} of this conversation."
    )


@command(
    "reflect",
    remote=True,
    examples=[
        'mindhold reflect "We moved the archive to PostgreSQL" --decision "Backups stay with restic"',
        'mindhold reflect "Importer mended" --error "Empty lines: strip them first" --question "Who owns it?"',
        "mindhold reflect - --conversation monday < summary.txt",
    ],
)
@click.argument("summary", nargs=-1, required=True)
@click.option("--decision", "decisions", multiple=True, metavar="TEXT", help="What was decided; repeat.")
@click.option(
    "--error", "errors_resolved", multiple=True, metavar="TEXT", help="What was fixed, and how; repeat."
)
@click.option(
    "--procedure", "new_procedures", multiple=True, metavar="TEXT", help="How to do it from now on; repeat."
)
@click.option(
    "--question", "open_questions", multiple=True, metavar="TEXT", help="What is still open; repeat."
)
@click.option("--conversation", metavar="NAME", help="The conversation.")
@click.option("--scope", metavar="NAME", help="The scope to store it in.")
@click.option("--success/--failure", default=None, help="Whether the work reached its goal.")
@click.option("--highlight", "highlights", multiple=True, metavar="TEXT", help="A tool that helped; repeat.")
@click.option(
    "--pain-point", "pain_points", multiple=True, metavar="TEXT", help="A tool that didn't help; repeat."
)
@with_open_session
async def reflect(
    session: OpenSession,
    /,
    *,
    summary: tuple[str, ...],
    success: bool | None,
    highlights: tuple[str, ...],
    pain_points: tuple[str, ...],
    **fields: Any,
) -> None:
    """Store the summary of a conversation and each of its points."""
    from mindhold.memories.reflect import REFLECT

    if success is None and (highlights or pain_points):
        raise click.UsageError("Say --success or --failure with them.")
    effect = {
        "overall_success": success,
        "tool_highlights": list(highlights),
        "tool_pain_points": list(pain_points),
    }
    result = await session.run(
        REFLECT,
        summary=text_or_stdin(session, summary),
        effectiveness=None if success is None else effect,
        **fields,
    )
    console = session.console
    if console.as_json(result):
        return
    if console.quiet:
        console.line(result.ids[0])
        return
    duplicates = f", {plural(result.duplicates, 'point')} known already" if result.duplicates else ""
    console.line(f"Kept {plural(result.stored, 'memory')}{duplicates}; the summary is {result.ids[0]}")
    if result.quarantined:
        console.note(f"{result.quarantined} of them read like instructions, and are given to nobody.")


@command(
    "explore",
    remote=True,
    examples=[
        "mindhold explore 01jxq3k",
        "mindhold explore 01jxq3k --depth 3",
        "mindhold explore 01jxq3k --relation related,part_of --json",
    ],
)
@click.argument("id")
@click.option(
    "--depth", type=click.IntRange(1, 5), metavar="1..5", help="How many links to follow (default: 1)."
)
@words(
    "--relation",
    "relations",
    choices=RELATIONS,
    metavar="RELATION",
    help="Follow these instead of causes and solutions.",
)
@click.option("--limit", "-n", type=int, metavar="N", help="How many memories at most (default: 50).")
@with_open_session
async def explore(session: OpenSession, /, *, id: str, **fields: Any) -> None:
    """Follow the links of a memory to its causes and solutions. A prefix of its id is enough."""
    from mindhold.memories.links import EXPLORE

    result = await session.run(EXPLORE, start=id, **fields)
    console = session.console
    if console.as_json(result):
        return
    console.line(_node(result.start))
    if not result.nodes:
        console.line("Nothing is linked to it by these relations.")
        return
    for depth in sorted({node.depth for node in result.nodes}):
        console.line(console.style(f"\n{plural(depth, 'link')} away", bold=True))
        for node in result.nodes:
            if node.depth == depth:
                console.line(f"  {_node(node)}")
    console.line(console.style("\nLinks", bold=True))
    for edge in result.edges:
        console.line(f"  {edge.origin} {edge.relation} → {edge.target}")


def _node(node: NodeView) -> str:
    return f"{node.id}  {node.kind:<10} {one_line(node.content, most=LONGEST_CELL)}"
