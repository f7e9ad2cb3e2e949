"""`mindhold amend` and `mindhold link`: corrections and relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import one_line, plural
from mindhold.interfaces.cli.remember import KINDS, pairs, text_or_stdin
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.memory import Relation

if TYPE_CHECKING:
    pass


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
@click.option("--content", metavar="TEXT", help="What it says from now on; `-` reads stdin.")
@click.option("--kind", type=click.Choice(KINDS), help="What sort of knowledge it is.")
@click.option("--topic", metavar="WORDS", help="What it is about; '' for none.")
@words("--tag", "-t", "tags", metavar="TAG", help="These tags instead of those it has.")
@click.option("--no-tags", is_flag=True, help="No tags any more.")
@words("--keyword", "keywords", metavar="WORD", help="These keywords instead.")
@click.option("--importance", type=float, metavar="0..1", help="How much it matters.")
@click.option("--anchor/--no-anchor", default=None, help="Never forgotten without --force.")
@click.option("--permanent/--no-permanent", default=None, help="Kept for good.")
@click.option("--when", metavar="TIME", help="When it happened.")
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="This metadata instead; repeat.")
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
    **given: Any,
) -> None:
    """Correct a memory. What it said before is kept and shown by `mindhold show`."""
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
        **given,
    )
    if session.console.json:
        session.console.document(result)
    else:
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
@click.option("--relation", "-r", type=click.Choice(RELATIONS), help="What ORIGIN is to TARGET (related).")
@click.option("--remove", is_flag=True, help="Remove the link; every relation unless one is named.")
@with_open_session
async def link(
    session: OpenSession, /, *, origin: str, target: str, relation: str | None, remove: bool
) -> None:
    """Say how two memories relate."""
    from mindhold.memories.links import LINK, UNLINK

    console = session.console
    ends = {"origin": origin, "target": target, "relation": relation}
    if remove:
        removed = await session.run(UNLINK, **ends)
        if console.json:
            console.document(removed)
        else:
            console.line(f"Removed {plural(len(removed.removed), 'link')}.")
        return
    made = await session.run(LINK, **ends)
    if console.json:
        console.document(made)
    else:
        told = "Linked" if made.created else "Linked already"
        console.line(f"{told}: {made.link.origin} {made.link.relation} {made.link.target}")
