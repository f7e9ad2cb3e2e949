"""`mindhold uninstall`: removes what init and connect wrote into other programs' files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.hooks.project_identity import project_identity
from mindhold.installers.files import FileChange, check_writable, read
from mindhold.installers.manifest import (
    EMPTY_BLOCK_UNDO,
    SETTINGS_UNDO,
    InstalledFile,
    Manifest,
    drop_project,
    plan_removal,
    read_manifest,
    server_undo,
    table_undo,
    uninstall,
)
from mindhold.installers.mcp_clients import MCP_CLIENTS, NAME, TOML, claude_local_keys
from mindhold.interfaces.cli.command import command, with_session
from mindhold.interfaces.cli.init import CLAUDE, document_root
from mindhold.interfaces.cli.installation import agree, documents, looked_like_ours, whole_path
from mindhold.interfaces.cli.output import Console, neutral, plural
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import MarkersWrong, MindholdError, NotFound, Refused
from mindhold.model.host import ClientFolders
from mindhold.model.markers import find_block
from mindhold.settings.loader import client_places

if TYPE_CHECKING:
    from mindhold.projects.projects import ProjectView


Planned = list[tuple[InstalledFile, FileChange]]
SOME_FAILED = 1
OUR_WORDS = b"_What Mindhold remembers of this project"  # how each block begins
DOCUMENTS = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "GEMINI.md")


@command(
    "uninstall",
    local=True,
    examples=[
        "mindhold uninstall",
        "mindhold uninstall ~/src/shop --yes",
        "mindhold uninstall --global",
        "mindhold uninstall --all",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="Out of your own settings of Claude Code.")
@click.option("--all", "all_of_it", is_flag=True, help="Out of every file of every client that is known.")
@click.option("--keep-project", is_flag=True, help="Keep the project even if nothing is remembered of it.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_session
async def uninstall_command(
    cli: CliSession,
    /,
    *,
    folder: Path | None,
    everywhere: bool,
    all_of_it: bool,
    keep_project: bool,
    yes: bool,
) -> int:
    """Take hooks, server and markers out again, of this folder unless another is given.

    A file that nobody changed since is as it was before, to the byte; of another, only what is Mindhold's goes.
    Memories stay. One that can't be read is named, the rest is taken out, and the exit status is 1.
    """
    if everywhere + all_of_it + (folder is not None) > 1:
        raise click.UsageError("FOLDER, --global and --all exclude each other.")
    console, settings = cli.console, cli.loaded().settings
    places, known = client_places(settings), manifest(settings.home)
    at = None if everywhere or all_of_it else whole_path(folder)
    if at is not None and not at.is_dir() and not known.at(str(at)):
        raise NotFound(f"There is no folder {at}.", advice="Give the project's folder.")
    planned, broken = _planned(settings.home, known, places, at, all_of_it=all_of_it)
    wanted = [change for change in _joined(planned) if change.changes]
    agree(console, wanted, yes=yes)
    gone = uninstall(settings.home, planned)
    folders = {place for _, place in known.projects} if all_of_it else {str(at)} if at else set()
    kept, dropped = await _projects(cli, known, folders, keep=keep_project)
    notes = _notes(known, places, at, found=bool(wanted))
    for problem in broken:
        console.warn(f"Left as it is: {problem}")
    if console.json:
        console.document(
            {
                "changes": documents(wanted),
                "folders_removed": gone,
                "projects_removed": dropped,
                "projects_kept": [{"name": one.name, "memories": one.memories} for one in kept],
                "problems": broken,
                "notes": notes,
            }
        )
    else:
        _tell(console, wanted, gone, kept, dropped)
        for note in notes:
            console.note(note)
    return SOME_FAILED if broken else 0


def _planned(
    home: Path, known: Manifest, places: ClientFolders, at: Path | None, *, all_of_it: bool
) -> tuple[Planned, list[str]]:
    """How the files are to be, and what is wrong with those that were noted and can't be read.

    Those that nobody noted are only looked at: one that can't be read has nothing that is known to be ours.
    """
    if all_of_it:
        noted = list(known.records)
    elif at is None:
        noted = [one for one in known.at("") if one.client == CLAUDE]
    else:
        noted = [one for one in known.at(str(at)) if Path(one.path) != places.claude_settings]
    paths = {one.path for one in noted}
    by_looks = [
        one
        for one in (_of_person(places) if at is None else _of_folder(at, places))
        if one.path not in paths and Path(one.path).exists()
    ]
    seen = [(one, change) for one, change in plan_removal(home, by_looks, passed_over=[]) if change.changes]
    wrong: list[MindholdError] = []
    planned = [*seen, *plan_removal(home, noted, passed_over=wrong)]
    for folder in {one.place for one, _ in planned if one.place}:
        planned += [
            (one, change)
            for one, change in plan_removal(home, _filled(Path(folder), paths), passed_over=[])
            if change.changes
        ]
    writable = []
    for one, change in planned:
        try:
            if change.changes:
                check_writable(change.path)
            writable.append((one, change))
        except Refused as error:
            wrong.append(error)
    return writable, list(dict.fromkeys(map(str, wrong)))


def _of_person(places: ClientFolders) -> list[InstalledFile]:
    return [
        looked_like_ours(places.claude_settings, "", CLAUDE, SETTINGS_UNDO),
        looked_like_ours(places.claude_json, "", CLAUDE, server_undo("mcpServers", NAME)),
    ]


def _of_folder(folder: Path, places: ClientFolders) -> list[InstalledFile]:
    """In the home folder, the settings of Claude Code are the person's, and none of a project."""
    place = str(folder)
    settings = [folder / ".claude" / name for name in ("settings.json", "settings.local.json")]
    records = [
        looked_like_ours(path, place, CLAUDE, SETTINGS_UNDO)
        for path in settings
        if path != places.claude_settings
    ]
    for client in MCP_CLIENTS.values():
        if client.project is not None:
            undo = (table_undo if client.project.endswith(TOML) else server_undo)(*client.keys())
            records.append(looked_like_ours(folder / client.project, place, client.name, undo))
    keys = claude_local_keys(folder, project_identity(place))
    return [*records, looked_like_ours(places.claude_json, place, CLAUDE, server_undo(*keys))]


def _filled(folder: Path, noted: set[str]) -> list[InstalledFile]:
    """Documents whose markers somebody else put there, or nobody knows who: these stay, what we wrote between goes."""
    files = [document_root(folder) / name for name in DOCUMENTS]
    return [
        looked_like_ours(path, str(folder), CLAUDE, EMPTY_BLOCK_UNDO)
        for path in files
        if str(path) not in noted and path.is_file() and _is_ours(read(path) or b"", path)
    ]


def _is_ours(content: bytes, path: Path) -> bool:
    """Whether what stands between its markers is ours, or nothing does."""
    try:
        place = find_block(content, name=str(path))
    except MarkersWrong:
        return False
    between = content[place.start : place.end].strip() if place else b"of nobody"
    return not between or OUR_WORDS in between


def _notes(known: Manifest, places: ClientFolders, at: Path | None, *, found: bool) -> list[str]:
    """Where else to look."""
    if at is None:
        return []
    notes = []
    if at / ".claude" / "settings.json" == places.claude_settings:
        notes.append("Your own settings are left alone: `mindhold uninstall --global` is for them.")
    others = {
        one.place
        for one in known.records
        if one.place and one.place != str(at) and Path(one.path).is_relative_to(at)
    }
    if not found:
        notes += [
            f"Mindhold was set up in {place}: `mindhold uninstall {shlex.quote(place)}` takes that back."
            for place in sorted(others)
        ]
    return notes


def _joined(planned: Planned) -> list[FileChange]:
    """One change for each file."""
    joined: dict[Path, FileChange] = {}
    for _, change in planned:
        first = joined.get(change.path)
        joined[change.path] = FileChange(change.path, first.before if first else change.before, change.after)
    return list(joined.values())


async def _projects(
    cli: CliSession, known: Manifest, folders: set[str], *, keep: bool
) -> tuple[list[ProjectView], list[str]]:
    """Projects of these folders that stay, and the names of those that went: made by us, and empty."""
    from mindhold.projects.projects import LIST_PROJECTS
    from mindhold.projects.scope_operations import DELETE_SCOPE

    wanted = {project_identity(folder) for folder in folders}
    ours = {name for name, folder in known.projects if folder in folders}
    settings = cli.loaded().settings
    kept: list[ProjectView] = []
    dropped: list[str] = []
    if not wanted or (settings.store.mode == "local" and not settings.database.exists()):
        return kept, dropped
    try:
        async with cli.open() as session:
            found = await session.run(LIST_PROJECTS)
            for one in found.projects:
                if one.identity not in wanted and one.name not in ours:  # the folder may be gone
                    continue
                if one.name in ours and one.memories == 0 and not keep:
                    await session.run(DELETE_SCOPE, name=one.name)
                    dropped.append(one.name)
                else:
                    kept.append(one)
    except MindholdError as error:
        cli.console.note(f"The project itself was left alone: {error}")
    for name in sorted(ours - {one.name for one in kept if keep}):
        drop_project(settings.home, name)
    return kept, dropped


def _tell(
    console: Console, changes: list[FileChange], gone: list[str], kept: list[ProjectView], dropped: list[str]
) -> None:
    if not changes:
        console.line("Nothing of Mindhold's is in these files.")
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
                f"`mindhold scopes delete {one.name!r}` deletes them."
            )
