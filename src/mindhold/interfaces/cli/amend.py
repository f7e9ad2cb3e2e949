"""`mindhold amend` and `mindhold link`: corrections and relations."""

from __future__ import annotations

from typing import Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import one_line, plural
from mindhold.interfaces.cli.remember import KINDS, pairs, text_or_stdin
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.memory import Relation

RELATIONS = [relation.value for relation in Relation]


@command(
    "amend",
    remote=True,
    examples=[
        'mindhold amend 01jxq3k --content "The staging database listens on port 5434"',
        "mindhold amend 01jxq3k --tag staging,db --importance 0.9",
        "mindhold amend 01jxq3k --content - < corrected.txt",
    ],
)
@click.argument("id")
@click.option("--content", metavar="TEXT", help="The new text; `-` reads stdin.")
@click.option("--kind", type=click.Choice(KINDS), help="The kind of knowledge.")
@click.option("--topic", metavar="WORDS", help="The topic; '' for none.")
@words("--tag", "-t", "tags", metavar="TAG", help="Replace its tags by these.")
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
@words("--keyword", "keywords", metavar="WORD", help="Replace its keywords by these.")
@click.option("--importance", type=float, metavar="0..1", help="How much it matters.")
@click.option("--anchor/--no-anchor", default=None, help="Never forget it without --force.")
@click.option("--permanent/--no-permanent", default=None, help="Keep it for good.")
@click.option("--when", metavar="TIME", help="When it happened.")
@click.option(
    "--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Replace its metadata by this; repeat."
)
@with_open_session
async def amend(
    session: OpenSession,
    /,
    *,
    id: str,
    content: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    when: str | None,
    metadata: tuple[str, ...],
    **fields: Any,
) -> None:
    """Correct a memory. `mindhold show` still prints the earlier versions."""
    from mindhold.memories.amend import AMEND

    if no_tags and tags:
        raise click.UsageError("Give --tag or --no-tags, not both.")
    result = await session.run(
        AMEND,
        id=id,
        content=None if content is None else text_or_stdin(session, (content,)),
        tags=[] if no_tags else tags,
        occurred=await session.instant(when) if when else None,
        metadata=pairs(metadata) or None,
        **fields,
    )
    if not session.console.as_json(result):
        session.console.line(f"Amended {result.memory.id}: {one_line(result.memory.content)}")


@command(
    "link",
    remote=True,
    examples=[
        "mindhold link 01jxq3k 01jxq4m --relation caused_by",
        "mindhold link 01jxq3k 01jxq4m --remove",
    ],
)
@click.argument("origin")
@click.argument("target")
@click.option(
    "--relation", "-r", type=click.Choice(RELATIONS), help="How ORIGIN relates to TARGET (default: related)."
)
@click.option("--remove", is_flag=True, help="Remove the link, or only the one with this --relation.")
@with_open_session
async def link(session: OpenSession, /, *, remove: bool, **ends: Any) -> None:
    """Link two memories by a relation."""
    from mindhold.memories.links import LINK, UNLINK

    console = session.console
    if remove:
        removed = await session.run(UNLINK, **ends)
        if not console.as_json(removed):
            console.line(f"Removed {plural(len(removed.removed), 'link')}.")
        return
    result = await session.run(LINK, **ends)
    if not console.as_json(result):
        verb = "Linked" if result.created else "Linked already"
        console.line(f"{verb}: {result.link.origin} {result.link.relation} {result.link.target}")
