"""`mindhold recall` and `mindhold ask`: search, and answers from memory with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.amend import RELATIONS
from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.memories import KINDS, STATUSES, statuses_with_archive
from mindhold.interfaces.cli.output import DOUBTFUL, local_time, one_line, relation_words
from mindhold.interfaces.cli.remember import text_or_stdin
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.memory import Status

if TYPE_CHECKING:
    from mindhold.memories.recall import RecallResult
    from mindhold.memories.views import HitView


MOST_LINES = 8
INDENT = 9


@command(
    "recall",
    remote=True,
    examples=[
        'mindhold recall "which port does staging use?"',
        "mindhold recall deploy failures --when 'last week' --kind error -n 5",
        "mindhold recall database port --tag staging --since 2024-03-01",
        "mindhold recall 'why SQLite' --links --budget 800 --json",
        "mindhold recall 'the old office' --archived",
    ],
)
@click.argument("query", nargs=-1)
@click.option("--limit", "-n", type=int, metavar="N", help="How many at most (default: recall.limit, 10).")
@click.option("--scope", metavar="NAME", help="Search this scope, those above it and Global.")
@click.option("--everywhere", "-e", is_flag=True, help="Search every scope.")
@words("--tag", "-t", "tags", metavar="TAG", help="Only memories with all these tags.")
@words("--kind", "-k", "kinds", choices=KINDS, metavar="KIND", help="Only these kinds.")
@click.option("--topic", metavar="WORDS", help="Only memories of this topic.")
@click.option("--when", metavar="TIME", help='Only from this time: "yesterday", "March 2023", "last week".')
@click.option("--since", metavar="TIME", help="Only from this time or later.")
@click.option("--until", metavar="TIME", help="Only from this time or earlier.")
@words("--keyword", "keywords", metavar="WORD", help="Extra words that count besides the query.")
@click.option("--budget", "token_budget", type=int, metavar="TOKENS", help="The most tokens of the answer.")
@click.option(
    "--min-score", "minimum_score", type=float, metavar="0..1", help="Leave out what scores below this."
)
@click.option("--links", "-l", is_flag=True, help="Show the links of each memory.")
@words(
    "--relation",
    "relations",
    choices=RELATIONS,
    metavar="RELATION",
    help="The relations of the links to show.",
)
@click.option(
    "--context", "-C", "neighbours", type=int, metavar="N", help="Show this many turns before and after each."
)
@words(
    "--status",
    "statuses",
    choices=STATUSES,
    metavar="STATUS",
    help="Search these instead of active memories.",
)
@click.option("--archived", is_flag=True, help="Search the archive instead of active memories.")
@click.option("--no-count", is_flag=True, help="Don't count this as a use of the memories.")
@click.option("--full", is_flag=True, help="Print long memories in full.")
@with_open_session
async def recall(
    session: OpenSession,
    /,
    *,
    query: tuple[str, ...],
    since: str | None,
    until: str | None,
    no_count: bool,
    archived: bool,
    full: bool,
    **fields: Any,
) -> None:
    """Find memories by words and by meaning."""
    from mindhold.memories.filters import SHOW
    from mindhold.memories.recall import NEAREST, RECALL

    fields["statuses"] = statuses_with_archive(fields["statuses"], archived=archived)
    fields["links"] = fields["links"] or bool(fields["relations"])
    result = await session.run(
        RECALL,
        minimum_trust=0.0,  # people judge for themselves; agents get trusted memories only
        query=" ".join(query),
        since=await session.instant(since) if since else None,
        until=await session.instant(until, end=True) if until else None,
        count_use=not no_count,
        **fields,
    )
    if session.console.as_json(result):
        return
    if result.timeframe:
        how = "Only from" if result.timeframe.filters else "Preferring"
        session.console.note(f"{how} {result.timeframe.words} ({result.timeframe.phrase!r})")
    if result.nearest:
        session.console.line(DOUBTFUL)
    elif not result.hits:
        session.console.line(_explain_nothing(result, everywhere=fields["everywhere"]))
    shown = result.hits or result.nearest
    for number, hit in enumerate(shown, 1):
        content = hit.content
        if full and hit.truncated:
            content = (await session.run(SHOW, id=hit.id)).memory.content
        _print_hit(session, number, hit, content=content, full=full)
    if any(hit.status == Status.ARCHIVED for hit in shown):
        session.console.note("`mindhold unarchive ID` brings one back from the archive.")
    session.console.note(result.notice.removeprefix(NEAREST).strip() if result.nearest else result.notice)


def _explain_nothing(result: RecallResult, *, everywhere: bool) -> str:
    if result.considered == 0:
        where = "" if everywhere else f" in {', '.join(result.scopes)}"
        return f"Nothing is remembered{where} that these filters let through. Try --everywhere, or fewer filters."
    wider = "" if everywhere else " --everywhere looks in every scope;"
    return f"Nothing found. Try other words;{wider} --min-score 0 shows the nearest there is."


def _print_hit(session: OpenSession, number: int, hit: HitView, *, content: str, full: bool) -> None:
    console = session.console
    lines = console.paragraphs(content, indent=INDENT, most_lines=None if full else MOST_LINES)
    head = f"{number:>2}. {console.style(f'{hit.score:.2f}', fg='cyan')} "
    console.line(head + lines[0])
    margin = " " * INDENT
    for line in lines[1:]:
        console.line(margin + line)
    if hit.truncated and not full:
        console.line(margin + console.style(f"… cut; `mindhold show {hit.id}` prints all of it", dim=True))
    console.line(margin + console.style(_details(session, hit), dim=True))
    for label, ids in (
        ("superseded by", hit.superseded_by),
        ("contradicted by", hit.contradicted_by),
        ("contradicts", hit.contradicts),
    ):
        if ids:
            console.line(margin + console.style(f"{label} {', '.join(ids)}", fg="yellow"))
    for label, turns in (("before", hit.before), ("after", hit.after)):
        for turn in turns:
            console.line(margin + console.style(f"{label}: {one_line(turn.content)}", dim=True))
    for neighbour in hit.links:
        relation = relation_words(neighbour.link.relation, outward=neighbour.link.origin == hit.id)
        text = f"{relation}: {one_line(neighbour.content)} ({neighbour.id})"
        console.line(margin + console.style(text, dim=True))


def _details(session: OpenSession, hit: HitView) -> str:
    parts = [
        hit.id,
        hit.kind,
        hit.scope,
        local_time(hit.occurred, session.zone)[: len("2024-01-01")],
        " ".join(f"#{tag}" for tag in hit.tags),
        "" if hit.status == Status.ACTIVE else hit.status,
        "; ".join(hit.why),
    ]
    return one_line(" · ".join(filter(None, parts)), most=400)


@command(
    "ask",
    remote=True,
    examples=[
        'mindhold ask "how does billing work?"',
        'mindhold ask "why did we leave MongoDB?" --scope webshop --json',
        "mindhold ask - < question.txt",
    ],
)
@click.argument("question", nargs=-1, required=True)
@click.option("--scope", metavar="NAME", help="Search this scope, those above it and Global.")
@click.option(
    "--limit", "-n", type=int, metavar="N", help="How many memories to consult at most (default: 30)."
)
@with_open_session
async def ask(session: OpenSession, /, *, question: tuple[str, ...], **fields: Any) -> None:
    """Answer a question from memory, with sources.

    The answer quotes memories, or is written by a language model if you configured one.
    """
    from mindhold.memories.ask import ASK

    session.running.warm()
    result = await session.run(ASK, question=text_or_stdin(session, question), **fields)
    console = session.console
    if console.as_json(result):
        return
    console.text(result.answer)
    sources = [(f"[{number}] ", source) for number, source in enumerate(result.citations, 1)]
    if result.nearest:
        console.line("The nearest, doubtful:")
        sources = [("", source) for source in result.nearest]
    for mark, source in sources:
        reference = f"{mark}{source.id} · {source.kind} · {one_line(source.content, most=160)}"
        console.line(console.style(reference, dim=True))
    if result.model:
        console.note(f"In the words of {result.model}.")
    console.note(result.notice)
