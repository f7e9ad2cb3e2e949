"""`mindhold context`, `reflect` and `explore`: the start and end of a conversation, and chains of causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import one_line, plural
from mindhold.interfaces.cli.remember import KINDS, text_or_stdin
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.memory import Relation

if TYPE_CHECKING:
    from mindhold.memories.links import ExploreResult, NodeView


RELATIONS = [relation.value for relation in Relation]
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
@click.option("--budget", "token_budget", type=int, metavar="TOKENS", help="At most how much (2000).")
@words("--kind", "-k", "kinds", choices=KINDS, metavar="KIND", help="Of these kinds, besides anchors.")
@click.option("--conversation", metavar="NAME", help="Whose working memory comes too.")
@click.option("--scope", metavar="NAME", help="In this scope, the ones above it and Global.")
@with_open_session
async def context(session: OpenSession, /, **given: Any) -> None:
    """What an agent has in mind when a conversation begins."""
    from mindhold.memories.context import CONTEXT

    result = await session.run(CONTEXT, **given)
    console = session.console
    if console.json:
        console.document(result)
        return
    if not result.text:
        console.line("There is nothing to have in mind yet.")
        return
    for line in console.paragraphs(result.text, indent=0):
        console.line(line)
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
    "--error", "errors_resolved", multiple=True, metavar="TEXT", help="What was mended, and how; repeat."
)
@click.option(
    "--procedure", "new_procedures", multiple=True, metavar="TEXT", help="How it is done from now on; repeat."
)
@click.option(
    "--question", "open_questions", multiple=True, metavar="TEXT", help="What is still open; repeat."
)
@click.option("--conversation", metavar="NAME", help="Which conversation it is about.")
@click.option("--scope", metavar="NAME", help="Where to keep it.")
@click.option("--success/--failure", default=None, help="Whether the work reached what it was for.")
@click.option(
    "--highlight", "highlights", multiple=True, metavar="TEXT", help="A tool that served well; repeat."
)
@click.option(
    "--pain-point", "pain_points", multiple=True, metavar="TEXT", help="A tool that didn't; repeat."
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
    **given: Any,
) -> None:
    """Keep what a conversation came to: the summary, and each point as a memory of its own."""
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
        **given,
    )
    console = session.console
    if console.json:
        console.document(result)
        return
    if console.quiet:
        console.line(result.ids[0])
        return
    known = f", {plural(result.duplicates, 'point')} known already" if result.duplicates else ""
    console.line(f"Kept {plural(result.stored, 'memory')}{known}; the summary is {result.ids[0]}")
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
@click.option("--depth", type=click.IntRange(1, 5), metavar="1..5", help="How many links to follow (1).")
@words(
    "--relation",
    "relations",
    choices=RELATIONS,
    metavar="RELATION",
    help="Instead of causes and resolutions.",
)
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many memories (50).")
@with_open_session
async def explore(session: OpenSession, /, *, id: str, **given: Any) -> None:
    """What caused a memory and what resolved it, link by link. The beginning of its id is enough."""
    from mindhold.memories.links import EXPLORE

    result = await session.run(EXPLORE, start=id, **given)
    console = session.console
    if console.json:
        console.document(result)
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
    for line in _edges(result):
        console.line(f"  {line}")


def _node(node: NodeView) -> str:
    return f"{node.id}  {node.kind:<10} {one_line(node.content, most=LONGEST_CELL)}"


def _edges(result: ExploreResult) -> Sequence[str]:
    return [f"{edge.origin} {edge.relation} → {edge.target}" for edge in result.edges]
