"""`recollect init`: a project, or all of a person's, is captured from now on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recollect.bare.folders import identity
from recollect.clients.claude import settings_change
from recollect.clients.connect import claude_local_keys
from recollect.clients.files import Change, check_writable, json_of, read
from recollect.clients.installed import install, note_project
from recollect.clients.markers import markers_change
from recollect.clients.mcp_entry import NAME, json_change, server_entry
from recollect.clients.program import Program
from recollect.interfaces.cli.command import command, with_session
from recollect.interfaces.cli.output import Console, neutral
from recollect.interfaces.cli.placing import (
    NOT_FOR_OTHERS,
    agree,
    documents,
    folder_of,
    home_as_said,
    how_called,
    is_person,
    only_while_active,
    program_here,
    says_home,
    show_plan,
    this_moment,
)
from recollect.interfaces.cli.session import Session
from recollect.model.errors import Conflict
from recollect.model.places import Places
from recollect.model.scope import GLOBAL, LONGEST_NAME
from recollect.settings.places import places as places_of

if TYPE_CHECKING:
    from recollect.operations.housing import ListProjectsResult, ProjectView

TOOLSETS = "core,capture"
MOST_NAMESAKES = 1_000
PROJECT, LOCAL, PERSON = "project", "local", "global"
CONSENT = (
    "Shall what is remembered be shown in {file} as well? Recollect then keeps a block of it up to date between two "
    "markers, and nothing else in it"
)
CLAUDE = "claude"


@dataclass(frozen=True, slots=True)
class Wish:
    """What init is to do. `documents` are those that get markers."""

    level: str
    folder: Path
    server: bool = True
    status_line: bool = False
    documents: tuple[str, ...] = ()
    toolsets: str = TOOLSETS
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    changes: list[Change]
    program: Program
    notes: list[str]
    project: str | None = None
    backup: Path | None = None
    dry_run: bool = False


@command(
    "init",
    examples=[
        "recollect init",
        "recollect init --claude-md --yes",
        "recollect init --global --statusline",
        "recollect init --dry-run",
    ],
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--global", "everywhere", is_flag=True, help="For all of your projects: in your own settings.")
@click.option("--local", is_flag=True, help="For you alone in this project: nothing that is committed.")
@click.option("--claude-md/--no-claude-md", default=None, help="Show what is remembered in CLAUDE.md too.")
@click.option("--agents-md", is_flag=True, help="In AGENTS.md too.")
@click.option("--gemini-md", is_flag=True, help="In GEMINI.md too.")
@click.option("--statusline", is_flag=True, help="Claude Code's status line tells what is remembered.")
@click.option("--no-mcp", is_flag=True, help="Hooks only: no tools for the agent.")
@click.option("--name", metavar="NAME", help="The project's name; the folder's unless given.")
@click.option("--toolsets", metavar="NAMES", default=TOOLSETS, show_default=True, help="Tools for the agent.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@with_session
async def init(session: Session, /, **given: Any) -> None:
    """Let Claude Code remember what is worked on here: hooks and tools, put into its settings.

    What others have in these files stays as it is, byte for byte; `recollect uninstall` takes back what was put in. A
    second run changes nothing.
    """
    wish = wished(session.console, **given)
    outcome = await carried_out(session, wish, dry_run=given["dry_run"], yes=given["yes"])
    if session.console.json:
        session.console.document(document(wish, outcome))
    else:
        tell(session.console, outcome)


def wished(console: Console, /, **given: Any) -> Wish:
    """What the options ask for, and the person. Raises click.UsageError, NotFound."""
    everywhere, local = given["everywhere"], given["local"]
    if everywhere and local:
        raise click.UsageError("--global and --local exclude each other.")
    level = PERSON if everywhere else LOCAL if local else PROJECT
    names = [
        name
        for name, wanted in (
            ("CLAUDE.md", given["claude_md"]),
            ("AGENTS.md", given["agents_md"]),
            ("GEMINI.md", given["gemini_md"]),
        )
        if wanted
    ]
    if everywhere and (names or given["name"]):
        raise click.UsageError("--claude-md, --agents-md, --gemini-md and --name go with one project.")
    folder = folder_of(given["folder"])
    if given["claude_md"] is None and not everywhere and not (given["yes"] or given["dry_run"]):
        file = document_file(folder, "CLAUDE.md")
        if is_person(console) and markers_change(file).changes:
            question = CONSENT.format(file=file.relative_to(document_root(folder)))
            names += ["CLAUDE.md"] if click.confirm(question, default=False, err=True) else []
    return Wish(
        level=level,
        folder=folder,
        server=not given["no_mcp"],
        status_line=given["statusline"],
        documents=tuple(names),
        toolsets=given["toolsets"],
        name=given["name"],
    )


async def carried_out(session: Session, wish: Wish, *, dry_run: bool = False, yes: bool = False) -> Outcome:
    """Plan, ask, do. Nothing is written anywhere before all files are known to be right."""
    from recollect.dialects.toolsets import tools_of

    tools_of([wish.toolsets])  # raises for one that there isn't
    settings = session.loaded().settings
    program, home = program_here(), home_as_said()
    places = places_of(settings)
    changes = planned(wish, places, program, home=home)
    outcome = Outcome(changes, program, _notes(wish, changes, places, program, home=home), dry_run=dry_run)
    wanted = [change for change in changes if change.changes]
    if dry_run:
        return outcome
    for change in wanted:
        check_writable(change.path)
    agree(session.console, wanted, yes=yes)
    project, made = await _registered(session, wish)
    place = "" if wish.level == PERSON else str(wish.folder)
    backup = install(settings.home, changes, place=place, client=CLAUDE, now=this_moment())
    if made and project:
        note_project(settings.home, project, place)
    return replace(outcome, project=project, backup=backup)


def planned(wish: Wish, places: Places, program: Program, *, home: str | None) -> list[Change]:
    """Every file as it would be. Raises InvalidInput, Conflict."""
    settings = {
        PERSON: places.claude_settings,
        LOCAL: wish.folder / ".claude" / "settings.local.json",
        PROJECT: wish.folder / ".claude" / "settings.json",
    }[wish.level]
    changes = [settings_change(settings, program, home=home, status_line=wish.status_line)]
    if wish.server:
        entry = server_entry(program, toolsets=wish.toolsets, home=home)
        if wish.level == PROJECT:
            changes.append(json_change(wish.folder / ".mcp.json", ("mcpServers", NAME), entry))
        elif wish.level == LOCAL:
            keys = claude_local_keys(wish.folder, identity(str(wish.folder)))
            changes.append(json_change(places.claude_json, keys, entry))
        else:
            changes.append(json_change(places.claude_json, ("mcpServers", NAME), entry))
    return changes + [markers_change(document_file(wish.folder, name)) for name in wish.documents]


def document_root(folder: Path) -> Path:
    """Where a project's documents are: at the top of the repository or worktree."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def document_file(folder: Path, name: str) -> Path:
    """CLAUDE.md may also be in .claude."""
    root = document_root(folder)
    hidden = root / ".claude" / name
    return hidden if name == "CLAUDE.md" and hidden.exists() and not (root / name).exists() else root / name


async def _registered(session: Session, wish: Wish) -> tuple[str | None, bool]:
    """The project's name, and whether it was made now. Raises Conflict for a name that is taken."""
    if wish.level == PERSON:
        return None, False
    folder, known_as = str(wish.folder), identity(str(wish.folder))
    async with session.open() as desk:
        known: ListProjectsResult = await desk.run("list_projects")
        for one in known.projects:
            if one.identity == known_as and one.active:
                return one.name, False
        base = wish.name or _named_like(known_as, wish.folder)
        for number in range(1, MOST_NAMESAKES):
            name = base if number == 1 else f"{base}-{number}"
            if name.casefold() == GLOBAL.casefold():
                continue
            try:
                made: ProjectView = await desk.run("create_project", name=name, path=folder)
                return made.name, True
            except Conflict:
                if wish.name:
                    raise
    raise Conflict(f"There are too many projects named {base!r}.", advice="Say --name.")


def _named_like(known_as: str, folder: Path) -> str:
    """The repository's folder gives its name, whichever of its folders this is."""
    git = Path(known_as)
    name = git.parent.name if git.name == ".git" else git.stem if git.suffix == ".git" else folder.name
    printable = "".join(char if char.isprintable() else "-" for char in name).strip()
    return printable[: LONGEST_NAME - 8] or PROJECT


def _notes(
    wish: Wish, changes: list[Change], places: Places, program: Program, *, home: str | None
) -> list[str]:
    notes = []
    shared = wish.level == PROJECT and any(change.changes for change in changes[: 1 + wish.server])
    if shared and not program.portable:
        notes.append(NOT_FOR_OTHERS.format(command=program.command))
    if only_while_active(program):
        notes.append(
            "recollect is on the PATH by an active virtual environment only: start Claude Code within it, or install "
            "Recollect outside of it."
        )
    if home:
        notes.append(says_home(home))
    if any(change.path.name == ".mcp.json" and change.changes for change in changes):
        notes.append("Claude Code asks once whether it may use the server of .mcp.json.")
    files = [
        places.claude_settings,
        *(wish.folder / ".claude" / name for name in ("settings.json", "settings.local.json")),
    ]
    found = [json_of(path, read(path)).value for path in dict.fromkeys(files)]
    if any(one.get("disableAllHooks") is True for one in found):
        notes.append("disableAllHooks is set in Claude Code's settings: nothing is captured until it isn't.")
    plugins = [name for one in found for name, on in _plugins(one).items() if on is True]
    if any(str(name).startswith(f"{NAME}@") for name in plugins):
        notes.append("The plugin does the same as these hooks: keep one of the two, or all is done twice.")
    return notes


def _plugins(settings: dict[str, Any]) -> dict[str, Any]:
    found = settings.get("enabledPlugins")
    return found if isinstance(found, dict) else {}


def document(wish: Wish, done: Outcome) -> dict[str, Any]:
    """For --json."""
    return {
        "dry_run": done.dry_run,
        "level": wish.level,
        "folder": None if wish.level == PERSON else str(wish.folder),
        "project": done.project,
        "command": [done.program.command, *done.program.arguments],
        "portable": done.program.portable,
        "changes": documents(done.changes),
        "unchanged": [str(change.path) for change in done.changes if not change.changes],
        "backup": str(done.backup) if done.backup else None,
        "notes": done.notes,
    }


def tell(console: Console, done: Outcome) -> None:
    """For people."""
    wanted = [change for change in done.changes if change.changes]
    if not wanted:
        console.line("All is in place already: nothing was changed.")
    elif done.dry_run:
        console.line("This would")
        show_plan(console.line, wanted, whole=True)
    else:
        for change in wanted:
            console.line(neutral(f"{'Made' if change.before is None else 'Changed'} {change.path}"))
    if done.project:
        console.line(f"What is said here is remembered as the project {neutral(done.project)}.")
    console.note(f"{how_called(done.program)}.")
    if done.backup:
        console.note(f"What was there before is in {done.backup}.")
    for note in done.notes:
        console.note(note)
    if wanted and not done.dry_run:
        console.note("`recollect status` tells what was captured; `recollect uninstall` takes this back.")
