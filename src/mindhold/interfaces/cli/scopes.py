"""`mindhold scopes`: the partitions of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, with_open_session, words
from mindhold.interfaces.cli.forget import confirm, count_of, print_receipt
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.projects.scope_operations import (
        ScopeView,
    )


@click.group(
    "scopes",
    cls=Group,
    remote=True,
    examples=["mindhold scopes list", "mindhold scopes create work --description 'The day job'"],
)
def scopes() -> None:
    """The partitions that memories live in.

    They nest, and every call sees its own, those above it, and Global.
    """


@scopes.command("list", examples=["mindhold scopes list --json"])
@with_open_session
async def list_scopes(session: OpenSession) -> None:
    """Every scope with its counts."""
    from mindhold.projects.scope_operations import LIST_SCOPES

    result = await session.run(LIST_SCOPES)
    if session.console.json:
        session.console.document(result)
        return
    session.console.note(result.notice)
    session.console.table(
        ["scope", "memories", "kind", "within", "active", "description"],
        [
            [
                one.name,
                "?" if one.memories is None else one.memories,
                one.kind,
                one.parent or "",
                "yes" if one.active else "no",
                one.description,
            ]
            for one in result.scopes
        ],
    )


@scopes.command("show", examples=["mindhold scopes show work"])
@click.argument("name")
@with_open_session
async def show_scope(session: OpenSession, /, *, name: str) -> None:
    """One scope, closely."""
    from mindhold.projects.scope_operations import SHOW_SCOPE

    _print(session, await session.run(SHOW_SCOPE, name=name))


@scopes.command(
    "create", examples=["mindhold scopes create api --parent work --kind project --description 'The API'"]
)
@click.argument("name")
@click.option("--description", metavar="WORDS", help="What belongs here.")
@click.option("--kind", metavar="WORD", help="general, or project.")
@click.option("--parent", metavar="NAME", help="The scope that it is within.")
@words("--keyword", "keywords", metavar="WORD", help="Words that speak of it.")
@with_open_session
async def create_scope(session: OpenSession, /, **given: Any) -> None:
    """Make a scope."""
    from mindhold.projects.scope_operations import CREATE_SCOPE

    _print(session, await session.run(CREATE_SCOPE, **given), told="Created")


@scopes.command("describe", examples=["mindhold scopes describe work 'All about the day job'"])
@click.argument("name")
@click.argument("description", nargs=-1, required=True)
@with_open_session
async def describe_scope(session: OpenSession, /, *, name: str, description: tuple[str, ...]) -> None:
    """Say what belongs in a scope."""
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(
        session,
        await session.run(CHANGE_SCOPE, name=name, description=" ".join(description)),
        told="Described",
    )


@scopes.command("keywords", examples=["mindhold scopes keywords work office payroll"])
@click.argument("name")
@click.argument("keywords", nargs=-1)
@with_open_session
async def set_keywords(session: OpenSession, /, *, name: str, keywords: tuple[str, ...]) -> None:
    """Name the words that speak of a scope, instead of those that it had; none takes them away.

    What an assistant stores without a scope goes where such a word stands in it.
    """
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(session, await session.run(CHANGE_SCOPE, name=name, keywords=list(keywords)), told="Changed")


@scopes.command("nest", examples=["mindhold scopes nest api work", "mindhold scopes nest api Global"])
@click.argument("name")
@click.argument("parent")
@with_open_session
async def nest_scope(session: OpenSession, /, *, name: str, parent: str) -> None:
    """Put a scope within another; within Global lifts it to the top."""
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(session, await session.run(CHANGE_SCOPE, name=name, parent=parent), told="Nested")


@scopes.command("rename", examples=["mindhold scopes rename api rest-api"])
@click.argument("name")
@click.argument("new_name")
@with_open_session
async def rename_scope(session: OpenSession, /, *, name: str, new_name: str) -> None:
    """Give a scope another name; its memories follow."""
    from mindhold.projects.scope_operations import RENAME_SCOPE

    _print(session, await session.run(RENAME_SCOPE, name=name, new_name=new_name), told="Renamed")


@scopes.command("activate", examples=["mindhold scopes activate work"])
@click.argument("name")
@with_open_session
async def activate_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a scope on again."""
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(session, await session.run(CHANGE_SCOPE, name=name, active=True), told="Activated")


@scopes.command("deactivate", examples=["mindhold scopes deactivate work"])
@click.argument("name")
@with_open_session
async def deactivate_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a scope off; its memories stay."""
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(session, await session.run(CHANGE_SCOPE, name=name, active=False), told="Deactivated")


@scopes.command("delete", examples=["mindhold scopes delete work --export work.jsonl --yes"])
@click.argument("name")
@click.option("--export", metavar="PATH", help="Where its memories go first (the export folder).")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_open_session
async def delete_scope(session: OpenSession, /, *, name: str, export: str | None, yes: bool) -> None:
    """Export a scope's memories, then remove it and them for good."""
    from mindhold.projects.scope_operations import DELETE_SCOPE

    console = session.console
    if not yes:
        count = await count_of(session, {"scope": name}, hidden=True)
        confirm(console, f"Remove the scope {name!r} and its {plural(count, 'memory')} for good?")
    result = await session.run(DELETE_SCOPE, name=name, export=export)
    if console.json:
        console.document(result)
        return
    console.line(f"Deleted {neutral(result.name)} with {plural(result.memories, 'memory')}.")
    if result.export:
        console.line(f"Exported first to {neutral(result.export)}")
    if result.receipt:
        print_receipt(console, result.receipt)
    if result.notice:
        console.line(neutral(result.notice))


@scopes.command(
    "retire", examples=["mindhold scopes retire work", "mindhold scopes retire work --delete --yes"]
)
@click.argument("name")
@click.option("--delete", is_flag=True, help="Remove it and its memories for good besides.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_open_session
async def retire_scope(session: OpenSession, /, *, name: str, delete: bool, yes: bool) -> None:
    """Put a scope aside that is no longer needed: backed up, then found by nobody who doesn't name it."""
    from mindhold.projects.scope_operations import RETIRE_SCOPE

    console = session.console
    if delete and not yes:
        count = await count_of(session, {"scope": name}, hidden=True)
        confirm(console, f"Back up the scope {name!r} and remove its {plural(count, 'memory')} for good?")
    result = await session.run(RETIRE_SCOPE, name=name, delete=delete)
    if console.json:
        console.document(result)
        return
    console.line(f"Retired {neutral(result.name)} with {plural(result.memories, 'memory')}.")
    console.line(f"All that was in it is in backups/{result.backup}.")
    if result.receipt:
        print_receipt(console, result.receipt)
    for said in (result.note, result.notice):
        if said:
            console.note(neutral(said))


@scopes.command("revive", examples=["mindhold scopes revive work"])
@click.argument("name")
@with_open_session
async def revive_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a retired scope on again."""
    from mindhold.projects.scope_operations import REVIVE_SCOPE

    _print(session, await session.run(REVIVE_SCOPE, name=name), told="Revived")


def _print(session: OpenSession, scope: ScopeView, *, told: str = "") -> None:
    console = session.console
    if console.json:
        console.document(scope)
        return
    if told:
        console.line(f"{told} {neutral(scope.name)}.")
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in scope.kinds.items())
    for name, value in (
        ("scope", scope.name),
        ("description", scope.description),
        ("kind", scope.kind),
        ("active", "yes" if scope.active else "no"),
        ("keywords", ", ".join(scope.keywords)),
        ("sees", ", ".join(scope.sees)),
        ("holds", ", ".join(scope.children)),
        ("memories", f"{scope.memories}" + (f" ({kinds})" if kinds else "")),
    ):
        if value:
            console.line(f"{console.style(f'{name:<12}', bold=True)} {neutral(value)}")
