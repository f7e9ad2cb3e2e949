"""`recollect projects` and `migrate`: which store a project lives in, and moving it to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from recollect.interfaces.cli.command import Group, command, with_desk
from recollect.interfaces.cli.forgetting import confirm
from recollect.interfaces.cli.output import Console, neutral, plural
from recollect.interfaces.cli.session import Desk
from recollect.model.storage import MODES

if TYPE_CHECKING:
    from recollect.operations.housing import ListProjectsResult, MigrateProjectResult, ProjectView


@click.group(
    "projects",
    cls=Group,
    examples=["recollect projects list", "recollect projects create shop --storage postgres --path ."],
)
def projects() -> None:
    """Projects, and the store that each lives in.

    A project is a scope. Its storage mode is chosen when it is made; `recollect migrate` moves it.
    """


@projects.command("create", examples=["recollect projects create shop --storage postgres --path ~/src/shop"])
@click.argument("name")
@click.option("--storage", "storage_mode", type=click.Choice(MODES), help="Its store. Default: store.mode.")
@click.option("--path", metavar="DIR", help="Its folder; all worktrees of one repository are one project.")
@click.option("--description", metavar="WORDS", help="What it is about.")
@with_desk
async def create_project(
    desk: Desk, /, *, name: str, storage_mode: str | None, path: str | None, description: str | None
) -> None:
    """Make a project. One that others have in that store already is joined."""
    made: ProjectView = await desk.run(
        "create_project", name=name, storage_mode=storage_mode, path=path, description=description
    )
    if desk.console.json:
        desk.console.document(made)
        return
    desk.console.line(f"Created {neutral(made.name)} in {made.storage_mode}.")
    if made.memories:
        desk.console.note(f"It has {plural(made.memories, 'memory')} there already.")


@projects.command("list", examples=["recollect projects list --json"])
@with_desk
async def list_projects(desk: Desk) -> None:
    """Every project, where it lives, and how much is in it."""
    found: ListProjectsResult = await desk.run("list_projects")
    if desk.console.json:
        desk.console.document(found)
        return
    if not found.projects:
        desk.console.line("There is no project yet. `recollect projects create NAME` makes one.")
        return
    desk.console.table(
        ["project", "storage", "memories", "path", ""],
        [
            [
                one.name,
                one.storage_mode,
                "?" if one.memories is None else one.memories,
                one.path or "",
                _remark(one),
            ]
            for one in found.projects
        ],
    )


@projects.command("show", examples=["recollect projects show shop"])
@click.argument("name")
@with_desk
async def show_project(desk: Desk, /, *, name: str) -> None:
    """One project, and where it lives."""
    one: ProjectView = await desk.run("show_project", name=name)
    console = desk.console
    if console.json:
        console.document(one)
        return
    for label, value in (
        ("project", one.name),
        ("storage", one.storage_mode),
        ("memories", "its store does not answer" if one.memories is None else f"{one.memories}"),
        ("description", one.description),
        ("active", "yes" if one.active else "no"),
        ("path", one.path or ""),
        ("identity", one.identity or ""),
        ("also", _remark(one)),
    ):
        if value:
            console.line(f"{console.style(f'{label:<12}', bold=True)} {neutral(value)}")


@command(
    "migrate",
    examples=[
        "recollect migrate shop --to postgres",
        "recollect migrate shop --to postgres --drop-source --yes",
        "recollect migrate shop --drop-source",
        "recollect migrate shop --forget-copy mongodb",
    ],
)
@click.argument("project")
@click.option("--to", type=click.Choice(MODES), help="The store that it is to live in.")
@click.option("--drop-source", is_flag=True, help="Erase what it has left behind, once it is verified.")
@click.option(
    "--forget-copy",
    type=click.Choice(MODES),
    help="This store is gone for good, and the copy in it; or, where others use the project: leave it to them.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_desk
async def migrate(
    desk: Desk, /, *, project: str, to: str | None, drop_source: bool, forget_copy: str | None, yes: bool
) -> None:
    """Move a project to another store.

    Others may read it and write to it meanwhile. A move that was broken off goes on where it was. The copy that is left
    behind is hidden, and kept until --drop-source.
    """
    if to is None and not drop_source and forget_copy is None:
        raise click.UsageError("Give --to, --drop-source or --forget-copy.")
    if drop_source and not yes:
        where = f"in {to}, once it is there" if to else "that it lives in"
        confirm(desk.console, f"Erase every copy of {project!r} but the one {where}?")
    if forget_copy and not yes:
        confirm(
            desk.console, f"Forget what is of {project!r} in {forget_copy}, without erasing anything there?"
        )
    done: MigrateProjectResult = await desk.run(
        "migrate_project", project=project, to=to, drop_source=drop_source, forget_copy=forget_copy
    )
    if desk.console.json:
        desk.console.document(done)
    else:
        _print(desk.console, done, forgotten=forget_copy)


def _print(console: Console, done: MigrateProjectResult, *, forgotten: str | None) -> None:
    if forgotten:
        console.line(f"What is of {neutral(done.project)} in {forgotten} is forgotten.")
    if done.moved:
        parts = (
            plural(done.memories, "memory"),
            plural(done.versions, "version"),
            plural(done.links, "link"),
            plural(done.vectors, "vector"),
        )
        console.line(
            f"Moved {neutral(done.project)} from {done.source} to {done.target}: {', '.join(parts)}."
        )
        console.line(f"Verified: the same counts and content hashes in both, {done.content_sum[:16]}.")
    elif forgotten is None:
        console.line(f"{neutral(done.project)} lives in {done.target} already.")
    if done.outside_links:
        console.line(f"{plural(done.outside_links, 'link')} to memories outside the project stayed behind:")
        for link in done.outside:
            console.line(f"  {link}")
    if done.dropped:
        console.line(f"Erased the copy that was left behind: {plural(done.dropped, 'memory')}.")
    if done.kept_in:
        console.note(
            f"A hidden copy is kept in {', '.join(done.kept_in)}; "
            f"`recollect migrate {done.project} --drop-source` erases it."
        )
    console.note(done.notice)


def _remark(one: ProjectView) -> str:
    if one.moving_to:
        return f"being moved to {one.moving_to}"
    return f"a hidden copy in {', '.join(one.copies)}" if one.copies else ""
