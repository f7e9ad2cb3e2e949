"""`mindhold scopes`: the partitions of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, with_open_session, words
from mindhold.interfaces.cli.forget import confirm, count_of, print_receipt
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.projects.scope_operations import ScopeView


@click.group(
    "scopes",
    cls=Group,
    remote=True,
    examples=["mindhold scopes list", "mindhold scopes create work --description 'The day job'"],
)
def scopes() -> None:
    """The partitions of memory.

    Scopes nest. A call sees its own scope, those above it, and Global.
    """


@scopes.command("list", examples=["mindhold scopes list --json"])
@with_open_session
async def list_scopes(session: OpenSession) -> None:
    """List every scope with its counts."""
    from mindhold.projects.scope_operations import LIST_SCOPES

    result = await session.run(LIST_SCOPES)
    if session.console.as_json(result):
        return
    session.console.note(result.notice)
    rows = []
    for scope in result.scopes:
        memories = "?" if scope.memories is None else scope.memories
        active = "yes" if scope.active else "no"
        rows.append([scope.name, memories, scope.kind, scope.parent or "", active, scope.description])
    session.console.table(["scope", "memories", "kind", "within", "active", "description"], rows)


@scopes.command("show", examples=["mindhold scopes show work"])
@click.argument("name")
@with_open_session
async def show_scope(session: OpenSession, /, *, name: str) -> None:
    """Show one scope in detail."""
    from mindhold.projects.scope_operations import SHOW_SCOPE

    _print(session, await session.run(SHOW_SCOPE, name=name))


@scopes.command(
    "create", examples=["mindhold scopes create api --parent work --kind project --description 'The API'"]
)
@click.argument("name")
@click.option("--description", metavar="WORDS", help="What belongs here.")
@click.option("--kind", metavar="WORD", help="general, or project.")
@click.option("--parent", metavar="NAME", help="The scope that contains it.")
@words("--keyword", "keywords", metavar="WORD", help="Words that mark a text as belonging here.")
@with_open_session
async def create_scope(session: OpenSession, /, **fields: Any) -> None:
    """Create a scope."""
    from mindhold.projects.scope_operations import CREATE_SCOPE

    _print(session, await session.run(CREATE_SCOPE, **fields), verb="Created")


@scopes.command("describe", examples=["mindhold scopes describe work 'All about the day job'"])
@click.argument("name")
@click.argument("description", nargs=-1, required=True)
@with_open_session
async def describe_scope(session: OpenSession, /, *, name: str, description: tuple[str, ...]) -> None:
    """Describe what belongs in a scope."""
    await _change(session, "Described", name=name, description=" ".join(description))


@scopes.command("keywords", examples=["mindhold scopes keywords work office payroll"])
@click.argument("name")
@click.argument("keywords", nargs=-1)
@with_open_session
async def set_keywords(session: OpenSession, /, *, name: str, keywords: tuple[str, ...]) -> None:
    """Replace the keywords of a scope; without any, remove them.

    A text that an assistant stores without a scope goes to the scope whose keyword it contains.
    """
    await _change(session, "Changed", name=name, keywords=list(keywords))


@scopes.command("nest", examples=["mindhold scopes nest api work", "mindhold scopes nest api Global"])
@click.argument("name")
@click.argument("parent")
@with_open_session
async def nest_scope(session: OpenSession, /, *, name: str, parent: str) -> None:
    """Move a scope into another; into Global moves it to the top."""
    await _change(session, "Nested", name=name, parent=parent)


@scopes.command("rename", examples=["mindhold scopes rename api rest-api"])
@click.argument("name")
@click.argument("new_name")
@with_open_session
async def rename_scope(session: OpenSession, /, *, name: str, new_name: str) -> None:
    """Rename a scope; its memories follow."""
    from mindhold.projects.scope_operations import RENAME_SCOPE

    _print(session, await session.run(RENAME_SCOPE, name=name, new_name=new_name), verb="Renamed")


@scopes.command("activate", examples=["mindhold scopes activate work"])
@click.argument("name")
@with_open_session
async def activate_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a scope on again."""
    await _change(session, "Activated", name=name, active=True)


@scopes.command("deactivate", examples=["mindhold scopes deactivate work"])
@click.argument("name")
@with_open_session
async def deactivate_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a scope off; its memories stay."""
    await _change(session, "Deactivated", name=name, active=False)


@scopes.command("delete", examples=["mindhold scopes delete work --export work.jsonl --yes"])
@click.argument("name")
@click.option("--export", metavar="PATH", help="The export file (default: in the export folder).")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_open_session
async def delete_scope(session: OpenSession, /, *, name: str, export: str | None, yes: bool) -> None:
    """Export a scope, then remove it and its memories for good."""
    from mindhold.projects.scope_operations import DELETE_SCOPE

    console = session.console
    if not yes:
        count = await count_of(session, {"scope": name}, hidden=True)
        confirm(console, f"Remove the scope {name!r} and its {plural(count, 'memory')} for good?")
    result = await session.run(DELETE_SCOPE, name=name, export=export)
    if console.as_json(result):
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
@click.option("--delete", is_flag=True, help="Also remove it and its memories for good.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_open_session
async def retire_scope(session: OpenSession, /, *, name: str, delete: bool, yes: bool) -> None:
    """Back up a scope and switch it off. Then only calls that name it find its memories."""
    from mindhold.projects.scope_operations import RETIRE_SCOPE

    console = session.console
    if delete and not yes:
        count = await count_of(session, {"scope": name}, hidden=True)
        confirm(console, f"Back up the scope {name!r} and remove its {plural(count, 'memory')} for good?")
    result = await session.run(RETIRE_SCOPE, name=name, delete=delete)
    if console.as_json(result):
        return
    console.line(f"Retired {neutral(result.name)} with {plural(result.memories, 'memory')}.")
    console.line(f"All that was in it is in backups/{result.backup}.")
    if result.receipt:
        print_receipt(console, result.receipt)
    console.note(result.note)
    console.note(result.notice)


@scopes.command("revive", examples=["mindhold scopes revive work"])
@click.argument("name")
@with_open_session
async def revive_scope(session: OpenSession, /, *, name: str) -> None:
    """Switch a retired scope on again."""
    from mindhold.projects.scope_operations import REVIVE_SCOPE

    _print(session, await session.run(REVIVE_SCOPE, name=name), verb="Revived")


async def _change(session: OpenSession, verb: str, **fields: Any) -> None:
    from mindhold.projects.scope_operations import CHANGE_SCOPE

    _print(session, await session.run(CHANGE_SCOPE, **fields), verb=verb)


def _print(session: OpenSession, scope: ScopeView, *, verb: str = "") -> None:
    console = session.console
    if console.as_json(scope):
        return
    if verb:
        console.line(f"{verb} {neutral(scope.name)}.")
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in scope.kinds.items())
    facts = [
        ("scope", scope.name),
        ("description", scope.description),
        ("kind", scope.kind),
        ("active", "yes" if scope.active else "no"),
        ("keywords", ", ".join(scope.keywords)),
        ("sees", ", ".join(scope.sees)),
        ("holds", ", ".join(scope.children)),
        ("memories", f"{scope.memories}" + (f" ({kinds})" if kinds else "")),
    ]
    console.facts(facts, width=12)
