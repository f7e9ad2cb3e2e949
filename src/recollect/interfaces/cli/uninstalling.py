"""`recollect uninstall`: takes back what init and connect have put into the files of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recollect.bare.folders import identity
from recollect.clients.connect import CLIENTS, claude_local_keys
from recollect.clients.files import Change
from recollect.clients.installed import Manifest, Record, drop_project, manifest, plan_removal, uninstall
from recollect.clients.mcp_entry import NAME
from recollect.clients.taking import OF_DOCUMENT, OF_SETTINGS, of_server
from recollect.interfaces.cli.command import command, with_session
from recollect.interfaces.cli.initializing import CLAUDE, document_file
from recollect.interfaces.cli.output import Console, neutral, plural
from recollect.interfaces.cli.placing import agree, documents, looked_like_ours
from recollect.interfaces.cli.session import Session
from recollect.model.errors import RecollectError
from recollect.model.places import Places
from recollect.settings.places import places as places_of

if TYPE_CHECKING:
    from recollect.operations.housing import ListProjectsResult, ProjectView

Planned = list[tuple[Record, Change]]


@command(
    "uninstall",
    examples=[
        "recollect uninstall",
        "recollect uninstall ~/src/shop --yes",
        "recollect uninstall --global",
        "recollect uninstall --all",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="Out of your own settings of Claude Code.")
@click.option("--all", "all_of_it", is_flag=True, help="Out of every file of every client that is known.")
@click.option("--keep-project", is_flag=True, help="Keep the project even if nothing is remembered of it.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_session
async def uninstall_command(
    session: Session,
    /,
    *,
    folder: Path | None,
    everywhere: bool,
    all_of_it: bool,
    keep_project: bool,
    yes: bool,
) -> None:
    """Take hooks, server and markers out again, of this folder unless another is given.

    A file that nobody changed since is as it was before, to the byte; of another, only what is Recollect's goes.
    Memories stay.
    """
    if everywhere + all_of_it + (folder is not None) > 1:
        raise click.UsageError("FOLDER, --global and --all exclude each other.")
    console, settings = session.console, session.loaded().settings
    at = (folder or Path()).expanduser().resolve()
    known = manifest(settings.home)
    planned = plan_removal(settings.home, _records(known, places_of(settings), at, everywhere, all_of_it))
    changes = _joined(planned)
    wanted = [change for change in changes if change.changes]
    agree(console, wanted, yes=yes)
    gone = uninstall(settings.home, planned)
    folders = {place for _, place in known.projects} if all_of_it else set() if everywhere else {str(at)}
    kept, dropped = await _projects(session, known, folders, keep=keep_project)
    if console.json:
        console.document(
            {
                "changes": documents(wanted),
                "folders_removed": gone,
                "projects_removed": dropped,
                "projects_kept": [{"name": one.name, "memories": one.memories} for one in kept],
            }
        )
        return
    _tell(console, wanted, gone, kept, dropped)


def _records(known: Manifest, places: Places, at: Path, everywhere: bool, all_of_it: bool) -> list[Record]:
    """Those that were noted, and files which nobody noted but that may have something of ours."""
    if all_of_it:
        noted = list(known.records)
        return [*_looked_at("", [], places, noted), *noted]
    if everywhere:
        noted = [one for one in known.at("") if one.client == CLAUDE]
        return [*_looked_at("", [], places, noted), *noted]
    noted = known.at(str(at))
    return [*_looked_at(str(at), [at], places, noted), *noted]


def _looked_at(place: str, folders: list[Path], places: Places, noted: list[Record]) -> list[Record]:
    records = []
    if not folders:
        records.append(looked_like_ours(places.claude_settings, place, CLAUDE, OF_SETTINGS))
        records.append(looked_like_ours(places.claude_json, place, CLAUDE, of_server("mcpServers", NAME)))
    for folder in folders:
        for name in ("settings.json", "settings.local.json"):
            records.append(looked_like_ours(folder / ".claude" / name, place, CLAUDE, OF_SETTINGS))
        for client in CLIENTS.values():
            if client.project is not None and client.project.endswith(".json"):
                undo = of_server(*client.keys())
                records.append(looked_like_ours(folder / client.project, place, client.name, undo))
        keys = claude_local_keys(folder, identity(str(folder)))
        records.append(looked_like_ours(places.claude_json, place, CLAUDE, of_server(*keys)))
    paths = {one.path for one in noted}
    records = [one for one in records if one.path not in paths and Path(one.path).exists()]
    if folders and not noted:
        records = [record for record, change in plan_removal(Path(), records) if change.changes]
        file = document_file(folders[0], "CLAUDE.md")
        if records and file.exists():
            records.append(looked_like_ours(file, place, CLAUDE, OF_DOCUMENT))
    return records


def _joined(planned: Planned) -> list[Change]:
    """One change for each file."""
    joined: dict[Path, Change] = {}
    for _, change in planned:
        first = joined.get(change.path)
        joined[change.path] = Change(change.path, first.before if first else change.before, change.after)
    return list(joined.values())


async def _projects(
    session: Session, known: Manifest, folders: set[str], *, keep: bool
) -> tuple[list[ProjectView], list[str]]:
    """Projects of these folders that stay, and the names of those that went: made by us, and empty."""
    wanted = {identity(folder) for folder in folders if Path(folder).is_dir()}
    ours = {name for name, folder in known.projects if folder in folders}
    settings = session.loaded().settings
    kept: list[ProjectView] = []
    dropped: list[str] = []
    if not wanted or (settings.store.mode == "local" and not settings.database.exists()):
        return kept, dropped
    try:
        async with session.open() as desk:
            found: ListProjectsResult = await desk.run("list_projects")
            for one in found.projects:
                if one.identity not in wanted:
                    continue
                if one.name in ours and one.memories == 0 and not keep:
                    await desk.run("delete_scope", name=one.name)
                    dropped.append(one.name)
                else:
                    kept.append(one)
    except RecollectError as error:
        session.console.note(f"The project itself was left alone: {error}")
    for name in dropped:
        drop_project(settings.home, name)
    return kept, dropped


def _tell(
    console: Console, changes: list[Change], gone: list[str], kept: list[ProjectView], dropped: list[str]
) -> None:
    if not changes:
        console.line("Nothing of Recollect's is in these files.")
    for change in changes:
        verb = "Removed" if change.after is None else "Cleared"
        console.line(neutral(f"{verb} {change.path}"))
    for folder in gone:
        console.line(neutral(f"Removed {folder}"))
    for name in dropped:
        console.line(f"Removed the project {neutral(name)}, which had no memories.")
    for one in kept:
        if one.memories:
            console.note(
                f"The project {one.name} keeps {plural(one.memories, 'memory')}; "
                f"`recollect scopes delete {one.name!r}` deletes them."
            )
