"""`mindhold capture` and `mindhold sync`: capture of a conversation, CLAUDE.md, and the state of the hooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_open_session
from mindhold.interfaces.cli.installation import whole_path
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.errors import InvalidInput, NotFound, Refused
from mindhold.model.markers import END, START

if TYPE_CHECKING:
    from mindhold.capture.capture import CaptureResult
    from mindhold.capture.status import CaptureStatusResult, ProjectCaptures
    from mindhold.settings.loader import LoadedSettings


MOST_PROJECTS = 5
SOME_FAILED = 1
OUTCOMES = {
    "nothing": "nothing new",
    "gone": "not captured: the file, or the folder it was held in, is gone (--folder names another)",
}


@command(
    "capture",
    examples=[
        "mindhold capture ~/.claude/projects/-home-me-shop/*.jsonl",
        "mindhold capture conversation.jsonl --folder ~/shop --json",
    ],
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="The project's folder (default: the folder of each conversation).",
)
@with_open_session
async def capture(session: OpenSession, /, *, files: tuple[Path, ...], folder: Path | None) -> int:
    """Capture memories from transcripts now, as hooks do.

    Each transcript is read from where the last capture stopped. If one can't be read, the exit status is 1.
    """
    from mindhold.capture.capture import CAPTURE

    session.running.warm()
    outcomes: list[dict[str, object]] = []
    failed = 0
    at = str(whole_path(folder)) if folder else ""
    for file in files:
        try:
            path = file.expanduser().absolute()
            result = await session.run(CAPTURE, file=str(path), folder=at)
        except (
            InvalidInput,
            NotFound,
            Refused,
            FileNotFoundError,
        ) as error:  # only this file fails
            failed += 1
            outcomes.append({"file": str(file), "outcome": "failed", "problem": str(error)})
            session.console.warn(f"{one_line(file.name, most=80)}: {error}")
            continue
        failed += result.outcome == "gone"
        outcomes.append({"file": str(file), **result.model_dump(mode="json")})
        if not session.console.json:
            session.console.line(_describe(file, result))
            if result.outcome != "gone":
                session.console.note(result.notice)
            for document in result.documents:
                if document.problem:
                    session.console.warn(document.problem)
    if session.console.json:
        session.console.document({"captured": outcomes})
    return SOME_FAILED if failed else 0


def _describe(file: Path, result: CaptureResult) -> str:
    name = one_line(file.name, most=80)
    if result.outcome == "gone" and result.notice:
        how = " (--folder)" if "folder" in result.notice else ""
        return f"{name}: not captured. {one_line(result.notice, most=400)}{how}"
    if result.outcome != "captured":
        return f"{name}: {OUTCOMES.get(result.outcome, result.outcome)}"
    duplicates = f", {result.duplicates} known already" if result.duplicates else ""
    replaced = f", {plural(len(result.superseded), 'older one')} replaced" if result.superseded else ""
    stored = plural(len(result.stored), "memory") + (f" for {result.scope}" if result.scope else "")
    return f"{name}: {stored}, of {plural(result.lines, 'line')}{duplicates}{replaced}, by {result.rung}"


def capture_facts(session: OpenSession, result: CaptureStatusResult) -> list[tuple[str, str]]:
    """Return the lines of `status` about capture; none if hooks were never used."""
    if not result.projects and not result.waiting and not result.given_up:
        return []
    state = f"by {result.extract_with}" if result.enabled else "switched off (capture.enabled)"
    waiting = f"; {plural(result.waiting, 'event')} to be worked off" if result.waiting else ""
    facts = [("capture", state + waiting)]
    facts += [("", _project(session, project)) for project in result.projects[:MOST_PROJECTS]]
    if len(result.projects) > MOST_PROJECTS:
        facts.append(("", f"and {len(result.projects) - MOST_PROJECTS} more projects"))
    return facts


def hook_facts(loaded: LoadedSettings) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the lines of `status` about the hooks of this folder, and their problems."""
    from mindhold.interfaces.cli.installation import hooks_here, is_there
    from mindhold.settings.loader import client_places

    if loaded.folder is None:
        return [], []
    hooks = hooks_here(Path(loaded.folder), client_places(loaded.settings))
    if hooks is None:
        facts = [("hooks", "not set up in this folder; `mindhold init` does")] if loaded.in_project else []
        return facts, []
    where, command = hooks
    wrong = f"The hooks call {command}, and there is no such program: `mindhold init` writes them anew."
    return [("hooks", f"set up {where}")], [] if is_there(command) else [wrong]


def capture_problems(result: CaptureStatusResult) -> list[str]:
    """Return what went wrong in captures lately."""
    problems = [
        f"capture of {project.project}: {project.problem}" for project in result.projects if project.problem
    ]
    if result.given_up:
        problems.append(
            f"{plural(result.given_up, 'event')} of hooks failed too often and lie in hooks/waiting/bad of the home folder."
        )
    return problems


def _project(session: OpenSession, project: ProjectCaptures) -> str:
    when = f"last {local_time(project.captured_at, session.zone)}" if project.captured_at else "never"
    by = f" by {project.rung}" if project.rung else ""
    return f"{project.project}: {plural(project.stored, 'memory')} captured, {when}{by}"


@command(
    "sync",
    examples=["mindhold sync", "mindhold sync ~/src/app", "mindhold sync --scope work --json"],
)
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--scope", metavar="NAME", help="Write this scope instead of the project's.")
@with_open_session
async def sync(session: OpenSession, /, *, folder: Path | None, scope: str | None) -> int:
    """Write memories into CLAUDE.md, AGENTS.md and GEMINI.md.

    Only between the markers, and only in files that have them. Each capture does the same by itself. The exit status
    is 1 if a file could not be written.
    """
    from mindhold.capture.claude_md import WRITE_DOCUMENTS

    result = await session.run(WRITE_DOCUMENTS, folder=str(whole_path(folder)), scope=scope)
    console = session.console
    if console.json:
        console.document(result)
    elif not result.documents:
        console.line("No document of this project has the markers.")
        console.note(f"Put {START} and {END} on two lines of CLAUDE.md, or have `mindhold init` do it.")
    for document in () if console.json else result.documents:
        if document.problem:
            console.warn(neutral(document.problem))
        else:
            state = "written" if document.changed else "up to date"
            console.line(f"{neutral(document.path)}: {state}, {plural(document.lines, 'line')} of memory")
    return int(any(document.problem for document in result.documents))
