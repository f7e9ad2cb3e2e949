"""`mindhold status`, `mindhold doctor`, `mindhold capture` and `mindhold sync`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_open_session, with_session
from mindhold.interfaces.cli.forget import confirm, print_receipt
from mindhold.interfaces.cli.installation import whole_path
from mindhold.interfaces.cli.output import Console, local_time, neutral, one_line, plural, price
from mindhold.interfaces.cli.session import CARRY_OVER, CheckFinding, CliSession, OpenSession
from mindhold.model.errors import (
    InvalidInput,
    MemoryNotFound,
    NotFound,
    Refused,
    SettingsError,
    StoreBusy,
    StoreDamaged,
    StoreError,
)
from mindhold.model.markers import END, START

if TYPE_CHECKING:
    from mindhold.capture.capture import CaptureResult
    from mindhold.capture.status import CaptureStatusResult
    from mindhold.history.status import HistoryStatusResult
    from mindhold.lifecycle.status import DoctorResult, StatusResult
    from mindhold.settings.loader import LoadedSettings


MOST_PROJECTS = 5
OUTCOMES = {
    "nothing": "nothing new",
    "gone": "not captured: the file, or the folder it was held in, is gone (--folder names another)",
}


@command(
    "capture",
    examples=[
        "mindhold capture ~/.claude/projects/-home-me-shop/*.jsonl",
        "mindhold capture conversation.jsonl --folder ~/shop --json",
        "mindhold capture --past --preview",
        "mindhold capture --past --limit 100 --yes",
    ],
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="The project's folder (default: the folder of each conversation; with --past the current one).",
)
@click.option("--past", is_flag=True, help="Read the project's past conversations with Claude Code.")
@click.option(
    "--limit", "-n", type=int, metavar="N", help="With --past: only the newest N conversations (default: 20)."
)
@click.option("--preview", is_flag=True, help="With --past: say how many, how long, and what for example.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@with_open_session
async def capture(
    session: OpenSession,
    /,
    *,
    files: tuple[Path, ...],
    folder: Path | None,
    past: bool,
    limit: int | None,
    preview: bool,
    yes: bool,
) -> int:
    """Capture memories from transcripts now, as hooks do.

    Each transcript is read from where the last capture stopped. If one can't be read, the exit status is 1. --past reads
    the conversations that were held in the project before, in the order in which they were said, each once.
    """
    if past == bool(files) or ((preview or limit is not None) and not past):
        raise click.UsageError("Name transcripts, or say --past, with --limit and --preview.")
    if past:
        return await _capture_past(session, whole_path(folder), limit=limit, only_preview=preview, yes=yes)
    from mindhold.capture.capture import CAPTURE

    session.running.warm()
    outcomes: list[dict[str, object]] = []
    failed = 0
    at = str(whole_path(folder)) if folder else ""
    for file in files:
        try:
            path = file.expanduser().absolute()
            result = await session.run(CAPTURE, file=str(path), folder=at)
        except (InvalidInput, NotFound, Refused, FileNotFoundError) as error:  # only this file fails
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
    session.console.as_json({"captured": outcomes})
    if any(outcome.get("stored") for outcome in outcomes):
        session.console.note("`mindhold review` walks through what was kept.")
    return 1 if failed else 0


async def _capture_past(
    session: OpenSession, folder: Path, *, limit: int | None, only_preview: bool, yes: bool
) -> int:
    from mindhold.interfaces.cli.past import capture_past, preview_past, print_captured, print_preview

    console = session.console
    if only_preview or not yes:
        preview = await preview_past(session, folder, limit=limit)
        if only_preview and console.as_json(preview):
            return 0
        if not preview.conversations:
            if not console.as_json({"conversations": 0}):
                console.line("No past conversation of this project waits to be read.")
            return 0
        if not console.json:
            print_preview(session, preview)
        if only_preview:
            return 0
        confirm(console, "Shall they be read?")
    result = await capture_past(session, folder, limit=limit)
    if not console.as_json(result):
        print_captured(console, result)
    return 1 if result.problems else 0


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
    rejected = f", {result.rejected} like what you rejected" if result.rejected else ""
    lines = plural(result.lines, "line")
    return f"{name}: {stored}, of {lines}{duplicates}{replaced}{rejected}, by {result.rung}"


def _capture_facts(session: OpenSession, result: CaptureStatusResult) -> list[tuple[str, str]]:
    """Return the lines of `status` about capture; none if hooks were never used."""
    if not result.projects and not result.waiting and not result.given_up:
        return []
    state = f"by {result.extract_with}" if result.enabled else "switched off (capture.enabled)"
    waiting = f"; {plural(result.waiting, 'event')} to be worked off" if result.waiting else ""
    facts = [("capture", state + waiting)]
    for project in result.projects[:MOST_PROJECTS]:
        when = f"last {local_time(project.captured_at, session.zone)}" if project.captured_at else "never"
        by = f" by {project.rung}" if project.rung else ""
        facts.append(("", f"{project.project}: {plural(project.stored, 'memory')} captured, {when}{by}"))
    if len(result.projects) > MOST_PROJECTS:
        facts.append(("", f"and {len(result.projects) - MOST_PROJECTS} more projects"))
    return facts


def _hook_facts(loaded: LoadedSettings) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the lines of `status` about the hooks of this folder, and their problems."""
    from mindhold.interfaces.cli.installation import hooks_here
    from mindhold.settings.loader import client_places

    if loaded.folder is None:
        return [], []
    hooks = hooks_here(Path(loaded.folder), client_places(loaded.settings))
    if hooks is None:
        facts = [("hooks", "not set up in this folder; `mindhold init` does")] if loaded.in_project else []
        return facts, []
    where, command = hooks
    wrong = f"The hooks call {command}, and there is no such program: `mindhold init` writes them anew."
    return [("hooks", f"set up {where}")], [] if which(command) else [wrong]


def _capture_problems(result: CaptureStatusResult) -> list[str]:
    """Return what went wrong in captures lately."""
    projects = [project for project in result.projects if project.problem]
    problems = [f"capture of {project.project}: {project.problem}" for project in projects]
    if result.given_up:
        problems.append(
            f"{plural(result.given_up, 'event')} of hooks failed too often and lie in hooks/waiting/bad of the home folder."
        )
    return problems


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
    failed = int(any(document.problem for document in result.documents))
    if console.as_json(result):
        return failed
    if not result.documents:
        console.line("No document of this project has the markers.")
        console.note(f"Put {START} and {END} on two lines of CLAUDE.md, or have `mindhold init` do it.")
    for document in result.documents:
        if document.problem:
            console.warn(document.problem)
        else:
            state = "written" if document.changed else "up to date"
            console.line(f"{neutral(document.path)}: {state}, {plural(document.lines, 'line')} of memory")
    return failed


@command("status", remote=True, examples=["mindhold status", "mindhold status --json"])
@with_open_session
async def status(session: OpenSession) -> None:
    """Show the state of Mindhold at a glance."""
    from mindhold.lifecycle.status import STATUS

    console = session.console
    result = await session.run(STATUS)
    document, facts = result.model_dump(mode="json"), _facts(session, result)
    problems: list[str] = []
    left = 0
    if not session.server:
        from mindhold.capture.status import CAPTURE_STATUS
        from mindhold.history.status import HISTORY_STATUS

        captured = await session.run(CAPTURE_STATUS)
        past = await session.run(HISTORY_STATUS)
        left = await _count_left_in_file(session)
        document["capture"] = captured.model_dump(mode="json")
        document |= {"history": past.model_dump(mode="json"), "left_in_the_file": left}
        hooks, wrong = _hook_facts(session.running.loaded)
        facts += [*hooks, *_capture_facts(session, captured), ("history", _history(past))]
        problems += [*wrong, *_capture_problems(captured)]
    if console.as_json(document):
        return
    console.facts(facts, width=10)
    for job in result.dead_jobs:
        console.warn(f"dead job: {one_line(job, most=200)}")
    for problem in problems:
        console.warn(one_line(problem, most=400))
    for mode, backend in result.storage.items():
        if backend["detail"]:
            console.warn(f"{mode}: {backend['detail']}")
    if left:
        text = f"The local file has {plural(left, 'memory')}, and not all of them are in this store"
        console.warn(f"{text}: {CARRY_OVER}")
    if result.backup.get("problem"):
        console.warn(f"no backup: {result.backup['problem']}")
    for model in result.unready_models:
        console.warn(model)
    console.note(result.notice)


async def _count_left_in_file(session: OpenSession) -> int:
    """Count the memories of the local file if it is not the store and the store lacks them."""
    from mindhold.memories.filters import SHOW

    loaded = session.running.loaded
    if loaded.settings.store.mode == "local":
        return 0
    records = session.cli.launcher.leftover(loaded)
    try:
        for memory_id in records.ids:
            await session.run(SHOW, id=memory_id)
    except MemoryNotFound:
        return records.memories
    except (StoreError, SettingsError):  # a project's store may hold it
        return 0
    return 0


@command(
    "doctor",
    examples=[
        "mindhold doctor",
        "mindhold doctor --repair",
        'mindhold doctor --scrub --phrase "what must be gone"',
    ],
)
@click.option(
    "--repair", is_flag=True, help="Rebuild derived data; save what can be read of a damaged database."
)
@click.option(
    "--scrub", is_flag=True, help="Rewrite the database files, so that they contain nothing erased."
)
@click.option(
    "--phrase", "phrases", multiple=True, metavar="TEXT", help="With --scrub: look for these bytes."
)
@with_session
async def doctor(cli: CliSession, /, *, repair: bool, scrub: bool, phrases: tuple[str, ...]) -> int:
    """Check the database, models, folders and jobs. The exit status is 1 if there is a problem."""
    from mindhold.lifecycle.status import DOCTOR

    if phrases and not scrub:
        raise click.UsageError("--phrase goes with --scrub.")
    console = cli.console
    try:
        async with cli.open() as session:
            result = await session.run(DOCTOR, repair=repair, scrub=scrub, phrases=phrases)
            result = _with_hooks(result, session)
    except StoreBusy:
        raise
    except (StoreError, SettingsError) as error:
        return await _report_unusable(cli, error, repair=repair)
    damage = [view.detail for view in result.findings if view.name == "file" and not view.healthy]
    if repair and damage:  # the repair did not remove it
        return await _report_unusable(cli, StoreDamaged("; ".join(damage)), repair=True)
    if not console.as_json(result):
        _print(console, result.findings, result.repaired)
        if result.scrubbed:
            print_receipt(console, result.scrubbed)
    unscrubbed = result.scrubbed is not None and not result.scrubbed.empty
    return 0 if result.healthy and not unscrubbed else 1


def _with_hooks(result: DoctorResult, session: OpenSession) -> DoctorResult:
    """Add the problems of this folder's hooks, which the operation can't see."""
    from mindhold.memories.views import FindingView

    _, problems = _hook_facts(session.running.loaded)
    if not problems:
        return result
    name = "hooks in this folder"
    views = [FindingView(name=name, healthy=False, detail=problem, advice="") for problem in problems]
    return result.model_copy(update={"healthy": False, "findings": [*result.findings, *views]})


async def _report_unusable(cli: CliSession, error: StoreError | SettingsError, *, repair: bool) -> int:
    """Report a database that can't be opened. Only a damaged one is salvaged: others would lose data."""
    console, loaded = cli.console, cli.loaded()
    salvage = repair and isinstance(error, StoreDamaged)
    salvaged = list(await cli.launcher.salvage(loaded)) if salvage else []
    findings = list(await cli.launcher.diagnose(loaded))
    if not salvaged and not any(error.message in finding.detail for finding in findings):
        from mindhold.memories.views import FindingView  # rarely needed

        detail = f"{error.code}: {error.message}"
        findings.insert(0, FindingView(name="opening", healthy=False, detail=detail, advice=error.advice))
    healthy = bool(salvaged) and all(finding.healthy for finding in findings)
    fields = ("name", "healthy", "detail", "advice")
    document = {
        "healthy": healthy,
        "findings": [{field: getattr(finding, field) for field in fields} for finding in findings],
        "repaired": salvaged,
        "opening": {"code": error.code, "message": error.message},
    }
    if not console.as_json(document):
        if salvaged:
            console.warn(f"The database could not be used as it was: {error}")
        _print(console, findings, salvaged)
    return 0 if healthy else 1


def _print(console: Console, findings: Sequence[CheckFinding], repaired: Sequence[str]) -> None:
    for repair in repaired:
        console.line(f"{console.style('done ', fg='cyan')} {neutral(repair)}")
    for finding in findings:
        mark = console.style("fine ", fg="green") if finding.healthy else console.style("WRONG", fg="red")
        console.line(f"{mark} {neutral(finding.name)}: {neutral(finding.detail)}")
        if finding.advice:
            console.line(f"      {neutral(finding.advice)}")
    wrong = sum(not finding.healthy for finding in findings)
    console.line("All is well." if not wrong else f"{wrong} of {len(findings)} findings need attention.")


def _facts(session: OpenSession, result: StatusResult) -> list[tuple[str, str]]:
    size = result.store.get("bytes") or 0
    return [
        ("version", result.version),
        ("server", session.server) if session.server else ("home", str(session.running.loaded.settings.home)),
        ("store", f"{_store_kind(result)}, {result.store.get('location')}, {size / 1e6:.1f} MB"),
        ("storage", _storage(result)),
        ("memories", f"{result.memories:,} active, {result.embedded:,} of them with a vector"),
        ("status", _tally(result.by_status)),
        ("kinds", _tally(result.by_kind)),
        ("scopes", _tally(result.by_scope)),
        ("recall by", result.rung),
        ("models", ", ".join(result.models) or "none; `mindhold models pull` fetches one"),
        ("judged by", result.classifier),
        ("jobs", _tally(result.jobs) or "none"),
        ("language", _language(result)),
        ("today", _spent(result)),
        ("sidecar", _sidecar(result)),
        ("lately", _lately(result)),
        ("backup", _backup(result)),
    ]


def _store_kind(result: StatusResult) -> str:
    """`mongodb 6.0.5, embedded`, as far as the store reports it."""
    kind = " ".join(str(result.store[name]) for name in ("kind", "server") if result.store.get(name))
    return f"{kind}, {result.store['mode']}" if result.store.get("mode") else kind


def _storage(result: StatusResult) -> str:
    """Return the state of each store, or nothing if there is one only."""
    parts = []
    for mode, backend in result.storage.items():
        names = f" ({', '.join(backend['projects'][:5])})" if backend["projects"] else ""
        parts.append(f"{mode} {backend['state']}{names}")
    return "; ".join(parts) if len(parts) > 1 else ""


def _sidecar(result: StatusResult) -> str:
    sidecar = result.beside
    if not sidecar:
        return ""
    where = ", ".join(filter(None, (sidecar["kind"], sidecar.get("location"), sidecar["state"])))
    detail = f". {sidecar['detail']}" if sidecar["detail"] else ""
    return f"{where}; keyword sets {sidecar['keywords']}{detail}"


def _history(past: HistoryStatusResult) -> str:
    """Return how far past conversations are indexed."""
    if not past.enabled:
        return "switched off (history.enabled)"
    if not past.conversations and not past.unread_files:
        return ""
    text = plural(past.conversations, "conversation")
    if past.unread_files:
        text += f", {plural(past.unread_files, 'file')} not indexed yet (`mindhold history index`)"
    if past.vanishing_count:
        text += f"; {past.vanishing_count:,} will be deleted within a week, without a copy"
    return text


def _backup(result: StatusResult) -> str:
    """Return the last backup and the databases that restores have replaced."""
    backup = result.backup
    if not backup:
        return ""
    last = f"{backup['last'][:16].replace('T', ' ')} UTC, {backup['file']}" if backup["last"] else "none yet"
    old = ", ".join(f"{copy['location']} ({copy['bytes'] / 1e6:.1f} MB)" for copy in backup["old"])
    return last + (f"; kept from before a restore: {old} (`mindhold restore --drop-old`)" if old else "")


def _lately(result: StatusResult) -> str:
    """Return what all servers did in conversations."""
    if not result.conversations:
        return ""
    return f"{plural(result.conversations, 'conversation')}: {_tally(result.activity)}"


def _spent(result: StatusResult) -> str:
    """Return calls and costs of embedding services; empty without any."""
    if not result.service_calls:
        return ""
    calls = plural(result.service_calls, "call")
    cost = f", {price(result.service_dollars)}" if result.service_dollars else ""
    return f"{calls} of embedding services, {result.service_tokens:,} tokens{cost}"


def _language(result: StatusResult) -> str:
    """Return the language model with today's calls and costs; empty without any."""
    if result.language_model is None and not result.language_calls:
        return ""
    calls = plural(result.language_calls, "call")
    spent = f"{calls} today, {result.language_tokens:,} of {result.daily_tokens:,} tokens"
    if result.daily_dollars:
        spent += f", {price(result.language_dollars)} of {price(result.daily_dollars)}"
    elif result.language_dollars:
        spent += f", {price(result.language_dollars)}"
    names = ", then ".join((result.language_model or "no model configured", *result.fallback_models))
    return f"{names}; {spent}"


def _tally(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{count:,} {name}" for name, count in ordered[:10])
    return f"{shown}, and {len(ordered) - 10} more" if len(ordered) > 10 else shown
