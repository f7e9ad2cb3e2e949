"""The manifest of what was installed where, and its removal, also from files that others changed since."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mindhold.hooks.lease import try_lock
from mindhold.installers.claude import (
    ENV,
    HOOKS,
    STATUS_LINE,
    without_home,
    without_hooks,
    without_markers,
    without_status_line,
)
from mindhold.installers.files import (
    BLOCK,
    HOME,
    HOOK,
    SERVER,
    STATUS,
    TABLE,
    FileChange,
    InsertionNotes,
    bytes_of,
    check_writable,
    clear_partials,
    errors_name_file,
    json_of,
    make_folders,
    merge_notes,
    read,
    remove,
    sum_of,
    write,
)
from mindhold.installers.json_text import JsonText
from mindhold.installers.mcp_clients import without_server, without_table
from mindhold.installers.toml_text import toml_of
from mindhold.model.errors import Conflict, InvalidInput, MindholdError, Refused

Undo = Sequence[Mapping[str, Any]]
# What is looked for where nobody noted anything.
OF_SETTINGS: tuple[dict[str, Any], ...] = (
    {"do": HOOK, "path": [HOOKS]},
    {"do": STATUS, "path": [STATUS_LINE]},
    {"do": HOME, "path": [ENV], "if": HOOK},
)
OF_DOCUMENT: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": []},)
# Markers that somebody put there themselves: only what was written between them goes, unless there is nothing else.
EMPTIED: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": [], "stay": True},)


def server_undo(*keys: str | int) -> tuple[dict[str, Any], ...]:
    """The same for a server's entry."""
    return ({"do": SERVER, "path": list(keys)},)


def table_undo(*keys: str) -> tuple[dict[str, Any], ...]:
    """The same in TOML."""
    return ({"do": TABLE, "path": list(keys)},)


def is_unrecorded(undo: Undo) -> bool:
    """Whether nobody noted how the file was before."""
    return not any("made" in note or "lead" in note for note in undo)


def remove_ours(path: Path, content: bytes, undo: Undo) -> bytes:
    """Raises InvalidInput where the file can't be read as what it was."""
    kinds = {note["do"] for note in undo}
    if BLOCK in kinds:
        return without_markers(path, content, next(note for note in undo if note["do"] == BLOCK))
    if TABLE in kinds:
        return _without_tables(path, content, undo)
    document = json_of(path, content, comments=True)
    with errors_name_file(path):
        left = _without_members(document, undo)
    return content if left.text == document.text else bytes_of(left.text, content)


def _without_members(document: JsonText, undo: Undo) -> JsonText:
    notes = InsertionNotes.of(undo)
    # who set the variable isn't known by its looks: it goes with hooks, and stays without
    hooked = without_hooks(document, notes).text != document.text
    for note in reversed(undo):
        if note["do"] == HOME:
            document = without_home(document, notes) if hooked or "if" not in note else document
        elif note["do"] == STATUS:
            document = without_status_line(document, notes)
        elif note["do"] == SERVER:
            document = without_server(document, tuple(note["path"]), notes)
    return without_hooks(document, notes) if any(note["do"] == HOOK for note in undo) else document


def _without_tables(path: Path, content: bytes, undo: Undo) -> bytes:
    text, _ = toml_of(path, content)
    for note in undo:
        text = without_table(path, text, tuple(note["path"]), lead=note.get("lead", ""))
    return bytes_of(text, content)


FILE, LOCK, VERSION = "installed.json", "installed.lock", 1
PATIENCE_SECONDS, PAUSE_SECONDS = 30, 0.02
# Folders of clients in a project: one that is empty once ours is out was made for it.
OF_CLIENTS = frozenset((".claude", ".codex", ".cursor", ".gemini", ".vscode"))
BACKUPS = ("backups", "setup")
_UTF8 = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One file that something was put into. `place` is a project's folder, or empty for what is the person's.

    `was` and `now` are sums of what it held before and after; `was` and `backup` are None once others changed it in
    between, for then there is no going back to what was.
    """

    path: str
    place: str
    client: str
    made: bool = False
    folders: tuple[str, ...] = ()
    backup: str | None = None
    was: str | None = None
    now: str | None = None
    undo: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of them, and the projects that were registered: name and folder."""

    records: tuple[InstalledFile, ...] = ()
    projects: tuple[tuple[str, str], ...] = ()

    def at(self, place: str) -> list[InstalledFile]:
        """Those of a project's folder, or of the person."""
        return [one for one in self.records if one.place == place]


def manifest(home: Path) -> Manifest:
    """What is noted. Raises InvalidInput for a file that isn't ours."""
    content = read(home / FILE)
    if content is None:
        return Manifest()
    try:
        noted = json.loads(content)
        if noted["version"] != VERSION:
            raise ValueError(f"version {noted['version']}")
        records = tuple(
            InstalledFile(**{**one, "folders": tuple(one["folders"]), "undo": tuple(one["undo"])})
            for one in noted["files"]
        )
        projects = tuple((one["name"], one["folder"]) for one in noted["projects"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{home / FILE} can't be understood: {error}.",
            advice="Move it away: what was put in is then found by its looks.",
        ) from error
    return Manifest(records, projects)


def save(home: Path, noted: Manifest) -> None:
    """For the owner only. Raises Refused."""
    document = {
        "version": VERSION,
        "files": [asdict(one) for one in noted.records],
        "projects": [{"name": name, "folder": folder} for name, folder in noted.projects],
    }
    path = home / FILE
    try:
        if not noted.records and not noted.projects:
            path.unlink(missing_ok=True)
            return
        make_folders(home, mode=0o700)
        write(path, json.dumps(document, ensure_ascii=False, indent=1).encode(), mode=0o600)
    except OSError as error:
        raise _failed(path, error) from error


def install(
    home: Path,
    changes: Sequence[FileChange],
    *,
    place: str,
    client: str,
    now: datetime,
    project: str | None = None,
) -> Path | None:
    """Make the changes, all or none, and note them, with the project that was made for them.

    Returns where what was there before is kept. Raises Refused, Conflict.
    """
    wanted = [change for change in changes if change.changes]
    if not wanted and project is None:
        return None
    _check(home, wanted)
    with _alone(home):
        _check(home, wanted)  # who had the lock before may have changed them
        for change in changes:
            clear_partials(change.path)
        return _install(home, wanted, place=place, client=client, now=now, project=project)


def _install(
    home: Path, wanted: Sequence[FileChange], *, place: str, client: str, now: datetime, project: str | None
) -> Path | None:
    before = manifest(home)
    projects = before.projects
    if project is not None and (project, place) not in projects:
        projects = (*projects, (project, place))
    folder, kept = _backed_up(home, wanted, now)
    records = list(before.records)
    for change in wanted:
        new = _record(change, place, client, kept.get(str(change.path)))
        known = next((one for one in records if _key(one) == _key(new)), None)
        if known is None:
            records.append(new)
        else:
            records[records.index(known)] = _again(known, new, change)
    save(home, Manifest(tuple(records), projects))
    try:
        _write_all(wanted)
    except OSError as error:
        save(home, before)
        raise _failed(Path(str(error.filename or wanted[0].path)), error) from error
    return folder


def drop_project(home: Path, name: str) -> None:
    """That the project isn't registered by us any more."""
    with _alone(home):
        known = manifest(home)
        left = tuple(one for one in known.projects if one[0] != name)
        if left != known.projects:
            save(home, replace(known, projects=left))


def plan_removal(
    home: Path, records: Iterable[InstalledFile], *, passed_over: list[MindholdError] | None = None
) -> list[tuple[InstalledFile, FileChange]]:
    """How each file would be without what was put in. Raises InvalidInput, Refused where that can't be told.

    With a list for `passed_over` such a file isn't planned for, and what is wrong with it is put into the list.
    """
    planned: list[tuple[InstalledFile, FileChange]] = []
    texts: dict[str, bytes | None] = {}
    for record in reversed(list(records)):
        path = Path(record.path)
        try:
            current = texts[record.path] if record.path in texts else read(path)
            after = _without(home, record, current)
        except (InvalidInput, Refused) as error:
            if passed_over is None:
                raise
            passed_over.append(error)
            continue
        texts[record.path] = after
        planned.append((record, FileChange(path, current, after)))
    return planned


def uninstall(home: Path, planned: Sequence[tuple[InstalledFile, FileChange]]) -> list[str]:
    """Make the planned changes, and forget what was noted. Returns the folders that went too. Raises Refused, Conflict."""
    final: dict[Path, FileChange] = {}
    for _, change in planned:
        known = final.get(change.path)
        final[change.path] = replace(known, after=change.after) if known else change
    wanted = [change for change in final.values() if change.changes]
    _check(home, wanted)
    with _alone(home) if home.is_dir() else nullcontext():
        _check(home, wanted)
        noted = manifest(home)  # raises before anything is changed
        for path in final:
            clear_partials(path)
        try:
            _write_all(wanted)
        except OSError as error:
            raise _failed(Path(str(error.filename or wanted[0].path)), error) from error
        gone = _folders_gone(planned)
        _forget(home, noted, planned)
    return gone


def _folders_gone(planned: Sequence[tuple[InstalledFile, FileChange]]) -> list[str]:
    gone = []
    for record, change in planned:
        folders = record.folders
        above = change.path.parent
        if record.place and is_unrecorded(record.undo) and change.changes and change.after is None:
            folders = (str(above),) if above.name in OF_CLIENTS else ()
        for folder in reversed(folders):
            with suppress(OSError):  # it isn't empty
                Path(folder).rmdir()
                gone.append(folder)
    return gone


def _forget(home: Path, noted: Manifest, planned: Sequence[tuple[InstalledFile, FileChange]]) -> None:
    keys = {_key(record) for record, _ in planned}
    left = tuple(_heir(one, planned) for one in noted.records if _key(one) not in keys)
    if left != noted.records:
        save(home, replace(noted, records=left))
    _drop_backups(home, [record for record, _ in planned if record.now])


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One at a time reads, changes and writes the notes of a home. Raises Refused, Conflict."""
    path = home / LOCK
    try:
        make_folders(home, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise _failed(path, error) from error
    try:
        _wait_for(descriptor, path)
        clear_partials(home / FILE)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while not try_lock(descriptor):
            if time.monotonic() > until:
                raise Conflict(
                    "Another call of Mindhold sets something up right now.",
                    advice="Try again; nothing was written.",
                )
            time.sleep(PAUSE_SECONDS)
    except OSError as error:
        raise _failed(path, error) from error


def _without(home: Path, record: InstalledFile, current: bytes | None) -> bytes | None:
    if current is None:
        return None
    if record.now is not None and sum_of(current) == record.now:
        if record.made:
            return None
        if record.backup is not None:
            kept = read(home / record.backup)
            if kept is not None and sum_of(kept) == record.was:
                return kept
    left = remove_ours(Path(record.path), current, record.undo)
    if left == current or left.removeprefix(_UTF8).strip() not in (b"", b"{}"):
        return left
    # nothing else was in it: where nobody knows, it was made for that
    return None if record.made or is_unrecorded(record.undo) else left


def _record(change: FileChange, place: str, client: str, backup: str | None) -> InstalledFile:
    real = Path(os.path.realpath(change.path))
    missing = [str(one) for one in real.parents if not one.exists()][::-1]
    return InstalledFile(
        path=str(change.path),
        place=place,
        client=client,
        made=change.before is None,
        folders=tuple(missing),
        backup=backup,
        was=sum_of(change.before),
        now=sum_of(change.after),
        undo=change.undo,
    )


def _again(known: InstalledFile, new: InstalledFile, change: FileChange) -> InstalledFile:
    """More is put into a file that something was put into before."""
    if change.before is None or (new.was == known.was and not known.made):
        return new  # ours isn't there any more
    undo = merge_notes(known.undo, new.undo)
    if new.was == known.now:
        return replace(known, now=new.now, undo=undo)
    return replace(known, backup=None, was=None, now=None, undo=undo)


def _heir(record: InstalledFile, planned: Sequence[tuple[InstalledFile, FileChange]]) -> InstalledFile:
    """Who stays last in a file that was made for us is the one to remove it."""
    for gone, change in planned:
        if gone.path == record.path and gone.made and change.after is not None:
            return replace(record, made=True, folders=gone.folders)
    return record


def _key(record: InstalledFile) -> tuple[str, str, str]:
    return record.path, record.place, record.client


def _check(home: Path, changes: Sequence[FileChange]) -> None:
    for change in changes:
        check_writable(change.path)
        if read(change.path) != change.before:
            raise Conflict(f"{change.path} was changed meanwhile.", advice="Try again; nothing was written.")
    check_writable(home / FILE)


def _backed_up(
    home: Path, changes: Sequence[FileChange], now: datetime
) -> tuple[Path | None, dict[str, str]]:
    there = [(change, change.before) for change in changes if change.before is not None]
    if not there:
        return None, {}
    folder = home.joinpath(*BACKUPS, f"{now:%Y%m%dT%H%M%S.%fZ}")
    kept = {}
    try:
        make_folders(folder, mode=0o700)
        for number, (change, content) in enumerate(there, 1):
            path = folder / f"{number}-{change.path.name}"
            write(path, content, mode=0o600)
            kept[str(change.path)] = path.relative_to(home).as_posix()
    except OSError as error:
        raise _failed(folder, error) from error
    return folder, kept


def _drop_backups(home: Path, records: Iterable[InstalledFile]) -> None:
    """Of what is as it was before."""
    for record in records:
        if record.backup is not None and (content := read(Path(record.path))) is not None:
            path = home / record.backup
            if sum_of(content) == record.was:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                    path.parent.rmdir()


def _write_all(changes: Sequence[FileChange]) -> None:
    done: list[FileChange] = []
    made: list[Path] = []
    try:
        for change in changes:
            made += _write(change.path, change.after)
            done.append(change)
    except OSError:
        for change in reversed(done):
            with suppress(OSError):
                _write(change.path, change.before)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _write(path: Path, content: bytes | None) -> list[Path]:
    if content is None:
        remove(path)
        return []
    return write(path, content)


def _failed(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{path} can't be written: {error.strerror}.",
        advice="Check permissions and room on the disk; all is as it was.",
    )
