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
    from mindhold.projects.summary_versions import SummaryVersionResult


MOST_VERSIONS = 50
_LOG = click.option(
    "--log/--no-log",
    "log_conversations",
    default=None,
    help="Whether hooks feed its messages and its summary (default: capture.project_log).",
)


@click.group(
    "projects",
    cls=Group,
    remote=True,
    examples=["mindhold projects list", "mindhold projects create shop --storage postgres --path ."],
)
def projects() -> None:
    """Projects, and the store of each.

    A project is a scope with a store of its own choice. `mindhold migrate` moves it to another store.
    """


@projects.command("create", examples=["mindhold projects create shop --storage postgres --path ~/src/shop"])
@click.argument("name")
@click.option("--storage", "storage_mode", type=click.Choice(MODES), help="Its store (default: store.mode).")
@click.option("--path", metavar="DIR", help="Its folder; all worktrees of one repository are one project.")
@click.option("--description", metavar="WORDS", help="What it is about.")
@_LOG
@with_open_session
async def create_project(session: OpenSession, /, **fields: Any) -> None:
    """Create a project, or join it if it exists in that store already."""
    from mindhold.projects.projects import CREATE_PROJECT

    project = await session.run(CREATE_PROJECT, **fields)
    if session.console.as_json(project):
        return
    session.console.line(f"Created {neutral(project.name)} in {project.storage_mode}.")
    if project.memories:
        session.console.note(f"It has {plural(project.memories, 'memory')} there already.")


@projects.command("list", examples=["mindhold projects list --json"])
@with_open_session
async def list_projects(session: OpenSession) -> None:
    """List projects with their stores and counts."""
    from mindhold.projects.projects import LIST_PROJECTS

    result = await session.run(LIST_PROJECTS)
    if session.console.as_json(result):
        return
    if not result.projects:
        session.console.line("There is no project yet. `mindhold projects create NAME` makes one.")
        return
    rows = []
    for project in result.projects:
        memories = "?" if project.memories is None else project.memories
        rows.append([project.name, project.storage_mode, memories, project.path or "", _remark(project)])
    session.console.table(["project", "storage", "memories", "path", ""], rows)


@projects.command("show", examples=["mindhold projects show shop"])
@click.argument("name")
@with_open_session
async def show_project(session: OpenSession, /, *, name: str) -> None:
    """Show one project and its store."""
    from mindhold.projects.projects import SHOW_PROJECT

    project = await session.run(SHOW_PROJECT, name=name)
    console = session.console
    if console.as_json(project):
        return
    facts = [
        ("project", project.name),
        ("storage", project.storage_mode),
        ("memories", "its store does not answer" if project.memories is None else f"{project.memories}"),
        ("description", project.description),
        ("active", "yes" if project.active else "no"),
        ("log", "fed by hooks" if project.settings.log_conversations else "not fed by hooks"),
        ("path", project.path or ""),
        ("identity", project.identity or ""),
        ("also", _remark(project)),
    ]
    console.facts(facts, width=12)


@projects.command(
    "change",
    examples=[
        "mindhold projects change shop --path ~/src/shop",
        "mindhold projects change shop --description 'Lamps' --inactive",
        "mindhold projects change shop --log",
    ],
)
@click.argument("name")
@click.option("--description", metavar="WORDS", help="What it is about.")
@click.option("--path", metavar="DIR", help="Its new folder; '' for none.")
@click.option("--active/--inactive", default=None, help="Switch it on or off.")
@click.option("--parent", metavar="NAME", help="The scope that contains it; Global for none.")
@words("--keyword", "keywords", metavar="WORD", help="Replace its keywords by these.")
@_LOG
@with_open_session
async def change_project(session: OpenSession, /, *, name: str, **fields: Any) -> None:
    """Change settings of a project.

    `mindhold migrate` changes its store, `mindhold scopes rename` its name.
    """
    from mindhold.projects.projects import CHANGE_PROJECT

    changes = {field: value for field, value in fields.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError(
            "Give --description, --path, --active, --inactive, --parent, --keyword, --log or --no-log."
        )
    project = await session.run(CHANGE_PROJECT, name=name, **changes)
    if not session.console.as_json(project):
        session.console.line(f"Changed {neutral(project.name)}.")


@projects.command("delete", examples=["mindhold projects delete shop --yes"])
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_open_session
async def delete_project(session: OpenSession, /, *, name: str, yes: bool) -> None:
    """Export a project, then remove it and its memories for good.

    The export goes to the export folder. Hidden copies and the memories of all agents are removed too.
    """
    from mindhold.projects.projects import DELETE_PROJECT, SHOW_PROJECT

    console = session.console
    project = await session.run(SHOW_PROJECT, name=name)
    confirm(console, f"Remove the project {project.name!r} in {project.storage_mode} for good?", yes=yes)
    result = await session.run(DELETE_PROJECT, name=project.name, confirm=project.name)
    if console.as_json(result):
        return
    console.line(f"Deleted {neutral(result.name)} with {plural(result.memories, 'memory')}.")
    console.line(f"Exported first to {neutral(result.export)}")
    remaining = sum(result.remaining.values())
    if result.memories:
        console.line(f"A second look found {remaining or 'nothing'} of it.")
    console.note(result.notice)


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
@click.option("--versions", is_flag=True, help=f"List its latest {MOST_VERSIONS} versions.")
@click.option("--version", "number", type=int, metavar="N", help="Print version N.")
@click.option("--diff", nargs=2, type=int, metavar="A B", help="Compare two versions.")
@click.option("--restore", type=int, metavar="N", help="Make a new version with the text of version N.")
@click.option(
    "--write",
    type=click.File("r", encoding="utf-8-sig"),
    metavar="FILE",
    help="Replace it: JSON with summary, key_decisions, tech_stack, patterns, gotchas; - for standard input.",
)
@with_open_session
async def project_summary(session: OpenSession, /, *, name: str | None, **options: Any) -> None:
    """Show, compare, restore or replace a project's summary.

    Without a name it is the project of this folder. Every version is kept.
    """
    from mindhold.projects.summary_update import REPLACE_SUMMARY
    from mindhold.projects.summary_versions import RESTORE_SUMMARY

    chosen = {option: value for option, value in options.items() if value is not None and value is not False}
    if len(chosen) > 1:
        raise click.UsageError("Give one of --versions, --version, --diff, --restore and --write.")
    project = name or session.running.loaded.settings.scope
    match chosen:
        case {"versions": True}:
            await _show_versions(session, project)
        case {"diff": (earlier, later)}:
            await _show_difference(session, project, from_version=earlier, to_version=later)
        case {"restore": version}:
            restored = await session.run(RESTORE_SUMMARY, project=project, version=version)
            _print_written(session, restored, f"It says what version {restored.restored_version} said")
        case {"write": stream}:
            replaced = await session.run(
                REPLACE_SUMMARY, project=project, create_project=False, **_read_summary(stream)
            )
            _print_written(session, replaced, "Written anew")
        case _:
            await _show_summary(session, project, options["number"])


async def _show_summary(session: OpenSession, project: str, version: int | None) -> None:
    from mindhold.projects.summary_update import PROJECT_SUMMARY
    from mindhold.projects.summary_versions import SUMMARY_VERSION

    result: ProjectSummaryResult | SummaryVersionResult
    if version is None:
        result = await session.run(PROJECT_SUMMARY, project=project)
    else:
        result = await session.run(SUMMARY_VERSION, project=project, version=version)
    if session.console.as_json(result):
        return
    if not result.summary:
        session.console.line("There is no summary yet.")
        return
    session.console.text(result.summary)
    when = "" if result.last_updated is None else f" of {local_time(result.last_updated, session.zone)}"
    session.console.note(f"Version {result.version}{when}.")


async def _show_versions(session: OpenSession, project: str) -> None:
    from mindhold.projects.summary_versions import SUMMARY_VERSIONS

    result = await session.run(SUMMARY_VERSIONS, project=project, limit=MOST_VERSIONS)
    if session.console.as_json(result):
        return
    if not result.versions:
        session.console.line("There is no summary yet.")
        return
    rows = []
    for version in result.versions:
        written = local_time(version.last_updated, session.zone)
        how = " ".join(filter(None, (version.merged_by, version.trigger.replace("_", " "))))
        rows.append([version.version, written, version.by, version.summary_length, how])
    session.console.table(["version", "written", "by", "length", "how"], rows)
    if result.next:
        session.console.note(f"There are {result.count} in all.")


async def _show_difference(session: OpenSession, project: str, **versions: int) -> None:
    from mindhold.projects.summary_versions import SUMMARY_DIFF

    result = await session.run(SUMMARY_DIFF, project=project, **versions)
    if session.console.as_json(result):
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in result.diff.splitlines() or ["They say the same."]:
        colour = colours.get(line[:1])
        session.console.line(session.console.style(neutral(line), fg=colour) if colour else neutral(line))


def _print_written(session: OpenSession, result: ReplaceSummaryResult, how: str) -> None:
    if not session.console.as_json(result):
        session.console.line(f"{how}: version {result.version} of the summary of {neutral(result.project)}.")


def _read_summary(stream: TextIO) -> dict[str, Any]:
    import json

    try:
        fields = json.load(stream)
    except ValueError as error:
        raise click.UsageError(f"--write wants JSON: {error}.") from error
    if not isinstance(fields, dict) or {"project", "expected", "create_project"} & fields.keys():
        raise click.UsageError(
            "--write wants an object with summary, key_decisions, tech_stack, patterns, gotchas."
        )
    return fields


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
@click.option("--to", type=click.Choice(MODES), help="The store to move it to.")
@click.option("--drop-source", is_flag=True, help="Erase the old copy after the move is verified.")
@click.option(
    "--forget-copy",
    type=click.Choice(MODES),
    help="Forget the copy in this store: the store is gone, or others still use the copy.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
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

    Others may read and write it meanwhile. An interrupted move continues where it stopped. The old copy is hidden and
    kept until --drop-source.
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
    result = await session.run(
        MIGRATE_PROJECT, project=project, to=to, drop_source=drop_source, forget_copy=forget_copy
    )
    if not session.console.as_json(result):
        _print(session.console, result, forgotten=forget_copy)


def _print(console: Console, result: MigrateProjectResult, *, forgotten: str | None) -> None:
    if forgotten:
        console.line(f"What is of {neutral(result.project)} in {forgotten} is forgotten.")
    if result.moved:
        counts = ((result.memories, "memory"), (result.versions, "version"), (result.links, "link"))
        parts = ", ".join(plural(count, noun) for count, noun in (*counts, (result.vectors, "vector")))
        console.line(f"Moved {neutral(result.project)} from {result.source} to {result.target}: {parts}.")
        console.line(f"Verified: the same counts and content hashes in both, {result.content_sum[:16]}.")
    elif forgotten is None:
        console.line(f"{neutral(result.project)} lives in {result.target} already.")
    if result.outside_links:
        console.line(f"{plural(result.outside_links, 'link')} to memories outside the project stayed behind:")
        for link in result.outside:
            console.line(f"  {link}")
    if result.dropped:
        console.line(f"Erased the copy that was left behind: {plural(result.dropped, 'memory')}.")
    if result.kept_in:
        console.note(
            f"A hidden copy is kept in {', '.join(result.kept_in)}; "
            f"`mindhold migrate {result.project} --drop-source` erases it."
        )
    console.note(result.notice)


def _remark(project: ProjectView) -> str:
    if project.moving_to:
        return f"being moved to {project.moving_to}"
    return f"a hidden copy in {', '.join(project.copies)}" if project.copies else ""
