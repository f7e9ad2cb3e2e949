"""`mindhold projects` and `mindhold migrate`: a project's store, settings and summary, and the move to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, command, with_open_session, words
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import Console, local_time, neutral, plural
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.scope import MODES

if TYPE_CHECKING:
    from typing import TextIO

    from mindhold.projects.migrate import MigrateProjectResult
    from mindhold.projects.projects import ProjectView
    from mindhold.projects.summary_update import ProjectSummaryResult, ReplaceSummaryResult
    from mindhold.projects.summary_versions import (
        SummaryVersionResult,
    )


MOST_VERSIONS = 50


@click.group(
    "projects",
    cls=Group,
    remote=True,
    examples=["mindhold projects list", "mindhold projects create shop --storage postgres --path ."],
)
def projects() -> None:
    """Projects, and the store that each lives in.

    A project is a scope. Its storage mode is chosen when it is made; `mindhold migrate` moves it.
    """


@projects.command("create", examples=["mindhold projects create shop --storage postgres --path ~/src/shop"])
@click.argument("name")
@click.option("--storage", "storage_mode", type=click.Choice(MODES), help="Its store. Default: store.mode.")
@click.option("--path", metavar="DIR", help="Its folder; all worktrees of one repository are one project.")
@click.option("--description", metavar="WORDS", help="What it is about.")
@with_open_session
async def create_project(
    session: OpenSession, /, *, name: str, storage_mode: str | None, path: str | None, description: str | None
) -> None:
    """Make a project. One that others have in that store already is joined."""
    from mindhold.projects.projects import CREATE_PROJECT

    made = await session.run(
        CREATE_PROJECT, name=name, storage_mode=storage_mode, path=path, description=description
    )
    if session.console.json:
        session.console.document(made)
        return
    session.console.line(f"Created {neutral(made.name)} in {made.storage_mode}.")
    if made.memories:
        session.console.note(f"It has {plural(made.memories, 'memory')} there already.")


@projects.command("list", examples=["mindhold projects list --json"])
@with_open_session
async def list_projects(session: OpenSession) -> None:
    """Every project, where it lives, and how much is in it."""
    from mindhold.projects.projects import LIST_PROJECTS

    found = await session.run(LIST_PROJECTS)
    if session.console.json:
        session.console.document(found)
        return
    if not found.projects:
        session.console.line("There is no project yet. `mindhold projects create NAME` makes one.")
        return
    session.console.table(
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


@projects.command("show", examples=["mindhold projects show shop"])
@click.argument("name")
@with_open_session
async def show_project(session: OpenSession, /, *, name: str) -> None:
    """One project, and where it lives."""
    from mindhold.projects.projects import SHOW_PROJECT

    one = await session.run(SHOW_PROJECT, name=name)
    console = session.console
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


@projects.command(
    "change",
    examples=[
        "mindhold projects change shop --path ~/src/shop",
        "mindhold projects change shop --description 'Lamps' --inactive",
    ],
)
@click.argument("name")
@click.option("--description", metavar="WORDS", help="What it is about.")
@click.option("--path", metavar="DIR", help="Its folder is there now; '' for none.")
@click.option("--active/--inactive", default=None, help="Take it up again, or put it away.")
@click.option("--parent", metavar="NAME", help="The scope that it is within; Global for none.")
@words("--keyword", "keywords", metavar="WORD", help="Words that speak of it, in place of those it has.")
@with_open_session
async def change_project(session: OpenSession, /, *, name: str, **given: Any) -> None:
    """Change a project's settings; what isn't given stays.

    Its store is changed by `mindhold migrate`, its name by `mindhold scopes rename`.
    """
    from mindhold.projects.projects import CHANGE_PROJECT

    changes = {field: value for field, value in given.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("Give --description, --path, --active, --inactive, --parent or --keyword.")
    changed = await session.run(CHANGE_PROJECT, name=name, **changes)
    if session.console.json:
        session.console.document(changed)
    else:
        session.console.line(f"Changed {neutral(changed.name)}.")


@projects.command("delete", examples=["mindhold projects delete shop --yes"])
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_open_session
async def delete_project(session: OpenSession, /, *, name: str, yes: bool) -> None:
    """Export a project's memories into the export folder, then remove it and them for good.

    In whichever store it lives, its hidden copies too, and whoever's the memories are.
    """
    from mindhold.projects.projects import DELETE_PROJECT, SHOW_PROJECT

    console = session.console
    found = await session.run(SHOW_PROJECT, name=name)
    if not yes:
        confirm(console, f"Remove the project {found.name!r} in {found.storage_mode} for good?")
    gone = await session.run(DELETE_PROJECT, name=found.name, confirm=found.name)
    if console.json:
        console.document(gone)
        return
    console.line(f"Deleted {neutral(gone.name)} with {plural(gone.memories, 'memory')}.")
    console.line(f"Exported first to {neutral(gone.export)}")
    left = sum(gone.remaining.values())
    if gone.memories:
        console.line(f"A second look found {left or 'nothing'} of it.")
    console.note(gone.notice)


@projects.command(
    "summary",
    examples=[
        "mindhold projects summary shop",
        "mindhold projects summary shop --versions",
        "mindhold projects summary shop --diff 3 5",
        "mindhold projects summary shop --restore 3",
        "mindhold projects summary shop --write summary.json",
    ],
)
@click.argument("name", required=False)
@click.option("--versions", is_flag=True, help=f"Its versions, the latest {MOST_VERSIONS}.")
@click.option("--version", "number", type=int, metavar="N", help="What version N said.")
@click.option("--diff", nargs=2, type=int, metavar="A B", help="What differs between two versions.")
@click.option("--restore", type=int, metavar="N", help="Say again what version N said, as a new version.")
@click.option(
    "--write",
    type=click.File("r", encoding="utf-8-sig"),
    metavar="FILE",
    help="Write it anew: JSON with summary, key_decisions, tech_stack, patterns, gotchas; - for standard input.",
)
@with_open_session
async def project_summary(session: OpenSession, /, *, name: str | None, **wish: Any) -> None:
    """What is known about a project, and what was said of it before.

    Without a name it is the project of this folder. Every version is kept; none is lost by restoring an older one.
    """
    from mindhold.projects.summary_update import REPLACE_SUMMARY
    from mindhold.projects.summary_versions import RESTORE_SUMMARY

    asked = {option: value for option, value in wish.items() if value is not None and value is not False}
    if len(asked) > 1:
        raise click.UsageError("Give one of --versions, --version, --diff, --restore and --write.")
    project = name or session.running.loaded.settings.scope
    match asked:
        case {"versions": True}:
            await _show_versions(session, project)
        case {"diff": (earlier, later)}:
            await _show_difference(session, project, from_version=earlier, to_version=later)
        case {"restore": version}:
            back = await session.run(RESTORE_SUMMARY, project=project, version=version)
            _written(session, back, f"It says what version {back.restored_version} said")
        case {"write": stream}:
            anew = await session.run(REPLACE_SUMMARY, project=project, create_project=False, **_read(stream))
            _written(session, anew, "Written anew")
        case _:
            await _show_summary(session, project, wish["number"])


async def _show_summary(session: OpenSession, project: str, version: int | None) -> None:
    from mindhold.projects.summary_update import PROJECT_SUMMARY
    from mindhold.projects.summary_versions import SUMMARY_VERSION

    told: ProjectSummaryResult | SummaryVersionResult
    if version is None:
        told = await session.run(PROJECT_SUMMARY, project=project)
    else:
        told = await session.run(SUMMARY_VERSION, project=project, version=version)
    if session.console.json:
        session.console.document(told)
        return
    if not told.summary:
        session.console.line("There is no summary yet.")
        return
    session.console.line("\n".join(session.console.paragraphs(told.summary, indent=0)))
    when = "" if told.last_updated is None else f" of {local_time(told.last_updated, session.zone)}"
    session.console.note(f"Version {told.version}{when}.")


async def _show_versions(session: OpenSession, project: str) -> None:
    from mindhold.projects.summary_versions import SUMMARY_VERSIONS

    found = await session.run(SUMMARY_VERSIONS, project=project, limit=MOST_VERSIONS)
    if session.console.json:
        session.console.document(found)
        return
    if not found.versions:
        session.console.line("There is no summary yet.")
        return
    session.console.table(
        ["version", "written", "by", "length", "how"],
        [
            [
                one.version,
                local_time(one.last_updated, session.zone),
                one.by,
                one.summary_length,
                " ".join(filter(None, (one.merged_by, one.trigger.replace("_", " ")))),
            ]
            for one in found.versions
        ],
    )
    if found.next:
        session.console.note(f"There are {found.count} in all.")


async def _show_difference(session: OpenSession, project: str, **versions: int) -> None:
    from mindhold.projects.summary_versions import SUMMARY_DIFF

    found = await session.run(SUMMARY_DIFF, project=project, **versions)
    if session.console.json:
        session.console.document(found)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in found.diff.splitlines() or ["They say the same."]:
        colour = colours.get(line[:1])
        session.console.line(session.console.style(neutral(line), fg=colour) if colour else neutral(line))


def _written(session: OpenSession, done: ReplaceSummaryResult, how: str) -> None:
    if session.console.json:
        session.console.document(done)
    else:
        session.console.line(f"{how}: version {done.version} of the summary of {neutral(done.project)}.")


def _read(stream: TextIO) -> dict[str, Any]:
    import json

    try:
        told = json.load(stream)
    except ValueError as error:
        raise click.UsageError(f"--write wants JSON: {error}.") from error
    if not isinstance(told, dict) or {"project", "expected", "create_project"} & told.keys():
        raise click.UsageError(
            "--write wants an object with summary, key_decisions, tech_stack, patterns, gotchas."
        )
    return told


@command(
    "migrate",
    examples=[
        "mindhold migrate shop --to postgres",
        "mindhold migrate shop --to postgres --drop-source --yes",
        "mindhold migrate shop --drop-source",
        "mindhold migrate shop --forget-copy mongodb",
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
@with_open_session
async def migrate(
    session: OpenSession,
    /,
    *,
    project: str,
    to: str | None,
    drop_source: bool,
    forget_copy: str | None,
    yes: bool,
) -> None:
    """Move a project to another store.

    Others may read it and write to it meanwhile. A move that was broken off goes on where it was. The copy that is left
    behind is hidden, and kept until --drop-source.
    """
    from mindhold.projects.migrate import MIGRATE_PROJECT

    if to is None and not drop_source and forget_copy is None:
        raise click.UsageError("Give --to, --drop-source or --forget-copy.")
    if drop_source and not yes:
        where = f"in {to}, once it is there" if to else "that it lives in"
        confirm(session.console, f"Erase every copy of {project!r} but the one {where}?")
    if forget_copy and not yes:
        confirm(
            session.console,
            f"Forget what is of {project!r} in {forget_copy}, without erasing anything there?",
        )
    done = await session.run(
        MIGRATE_PROJECT, project=project, to=to, drop_source=drop_source, forget_copy=forget_copy
    )
    if session.console.json:
        session.console.document(done)
    else:
        _print(session.console, done, forgotten=forget_copy)


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
            f"`mindhold migrate {done.project} --drop-source` erases it."
        )
    console.note(done.notice)


def _remark(one: ProjectView) -> str:
    if one.moving_to:
        return f"being moved to {one.moving_to}"
    return f"a hidden copy in {', '.join(one.copies)}" if one.copies else ""
