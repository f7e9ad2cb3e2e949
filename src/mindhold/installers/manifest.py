"""The manifest of what was installed where, and its removal, even from files that others have changed since."""

from __future__ import annotations

import json
import os
import time
from codecs import BOM_UTF8
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
from mindhold.installers.config_text import JsonText, parse_toml_file
from mindhold.installers.files import (
    BLOCK,
    HOME,
    HOOK,
    SERVER,
    STATUS,
    TABLE,
    FileChange,
    InsertionNotes,
    check_writable,
    clear_partials,
    encode_text,
    errors_name_file,
    hash_content,
    make_folders,
    merge_notes,
    parse_json_file,
    read,
    remove,
    write,
)
from mindhold.installers.mcp_clients import without_server, without_table
from mindhold.model.errors import Conflict, InvalidInput, MindholdError, Refused

Undo = Sequence[Mapping[str, Any]]
# What to search for if nothing was recorded.
SETTINGS_UNDO: tuple[dict[str, Any], ...] = (
    {"do": HOOK, "path": [HOOKS]},
    {"do": STATUS, "path": [STATUS_LINE]},
    {"do": HOME, "path": [ENV], "if": HOOK},
)
DOCUMENT_UNDO: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": []},)
# Markers that the user wrote: only the text between them is removed, unless there is nothing else.
EMPTY_BLOCK_UNDO: tuple[dict[str, Any], ...] = ({"do": BLOCK, "path": [], "stay": True},)


def server_undo(*keys: str | int) -> tuple[dict[str, Any], ...]:
    """The same for a server's entry in JSON."""
    return ({"do": SERVER, "path": list(keys)},)


def table_undo(*keys: str) -> tuple[dict[str, Any], ...]:
    """The same for a server's entry in TOML."""
    return ({"do": TABLE, "path": list(keys)},)


def is_unrecorded(undo: Undo) -> bool:
    """Whether nothing was recorded about the file before the change."""
    return not any("made" in note or "lead" in note for note in undo)


def remove_ours(path: Path, content: bytes, undo: Undo) -> bytes:
    """The content without our insertions. Raises InvalidInput if the file can't be parsed."""
    notes = {note["do"]: note for note in reversed(undo)}
    if BLOCK in notes:
        return without_markers(path, content, notes[BLOCK])
    if TABLE in notes:
        text, _ = parse_toml_file(path, content)
        for note in undo:
            text = without_table(path, text, tuple(note["path"]), lead=note.get("lead", ""))
        return encode_text(text, content)
    document = parse_json_file(path, content, comments=True)
    with errors_name_file(path):
        remaining = _without_members(document, undo)
    return content if remaining.text == document.text else encode_text(remaining.text, content)


def _without_members(document: JsonText, undo: Undo) -> JsonText:
    notes = InsertionNotes.of(undo)
    # A variable doesn't show who set it: it is removed together with hooks only.
    has_hooks = without_hooks(document, notes).text != document.text
    for note in reversed(undo):
        if note["do"] == HOME:
            document = without_home(document, notes) if has_hooks or "if" not in note else document
        elif note["do"] == STATUS:
            document = without_status_line(document, notes)
        elif note["do"] == SERVER:
            document = without_server(document, tuple(note["path"]), notes)
    return without_hooks(document, notes) if any(note["do"] == HOOK for note in undo) else document


MANIFEST_FILE, LOCK, VERSION = "installed.json", "installed.lock", 1
PATIENCE_SECONDS, PAUSE_SECONDS = 30, 0.02
# Client folders in a project: one that is empty after the removal was created for us.
CLIENT_FOLDERS = frozenset((".claude", ".codex", ".cursor", ".gemini", ".vscode"))
BACKUPS = ("backups", "setup")


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One file with an insertion. `place` is a project's folder, or empty for the user's own files.

    `was` and `now` are hashes of its content before and after; `was` and `backup` are None once others changed it in
    between, because then the old content can't be restored.
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
    """All files with insertions, and the registered projects: name and folder."""

    records: tuple[InstalledFile, ...] = ()
    projects: tuple[tuple[str, str], ...] = ()

    def at(self, place: str) -> list[InstalledFile]:
        """The files of a project's folder, or of the user."""
        return [record for record in self.records if record.place == place]


def read_manifest(home: Path) -> Manifest:
    """Read the manifest. Raises InvalidInput for a file that isn't ours."""
    content = read(home / MANIFEST_FILE)
    if content is None:
        return Manifest()
    try:
        document = json.loads(content)
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']}")
        records = tuple(
            InstalledFile(**{**entry, "folders": tuple(entry["folders"]), "undo": tuple(entry["undo"])})
            for entry in document["files"]
        )
        projects = tuple((entry["name"], entry["folder"]) for entry in document["projects"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{home / MANIFEST_FILE} can't be understood: {error}.",
            advice="Move it away: what was put in is then found by its looks.",
        ) from error
    return Manifest(records, projects)


def save_manifest(home: Path, content: Manifest) -> None:
    """Write the manifest, readable for the owner only. Raises Refused."""
    document = {
        "version": VERSION,
        "files": [asdict(record) for record in content.records],
        "projects": [{"name": name, "folder": folder} for name, folder in content.projects],
    }
    path = home / MANIFEST_FILE
    try:
        if not content.records and not content.projects:
            path.unlink(missing_ok=True)
            return
        make_folders(home, mode=0o700)
        write(path, json.dumps(document, ensure_ascii=False, indent=1).encode(), mode=0o600)
    except OSError as error:
        raise _write_error(path, error) from error


def install(
    home: Path,
    changes: Sequence[FileChange],
    *,
    place: str,
    client: str,
    now: datetime,
    project: str | None = None,
) -> Path | None:
    """Make the changes, all or none, and record them with the project that was created.

    Returns the folder of the backup. Raises Refused, Conflict.
    """
    needed = [change for change in changes if change.changes]
    if not needed and project is None:
        return None
    _check(home, needed)
    with _manifest_lock(home):
        _check(home, needed)  # the previous holder of the lock may have changed them
        for change in changes:
            clear_partials(change.path)
        before = read_manifest(home)
        projects = before.projects
        if project is not None and (project, place) not in projects:
            projects = (*projects, (project, place))
        folder, backups = _back_up(home, needed, now)
        records = {_key(record): record for record in before.records}
        for change in needed:
            new = _record(change, place, client, backups.get(str(change.path)))
            previous = records.get(_key(new))
            records[_key(new)] = _update_record(previous, new, change) if previous else new
        save_manifest(home, Manifest(tuple(records.values()), projects))
        try:
            _write_all(needed)
        except Refused:
            save_manifest(home, before)
            raise
    return folder


def drop_project(home: Path, name: str) -> None:
    """Remove a project from the manifest."""
    with _manifest_lock(home):
        current = read_manifest(home)
        remaining = tuple(project for project in current.projects if project[0] != name)
        if remaining != current.projects:
            save_manifest(home, replace(current, projects=remaining))


def plan_removal(
    home: Path, records: Iterable[InstalledFile], *, passed_over: list[MindholdError] | None = None
) -> list[tuple[InstalledFile, FileChange]]:
    """Plan each file without our insertions. Raises InvalidInput, Refused if that can't be determined.

    With a list in `passed_over`, such a file is skipped and its error is appended to the list.
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


def join_changes(planned: Sequence[tuple[InstalledFile, FileChange]]) -> list[FileChange]:
    """Join the changes of each file into one."""
    joined: dict[Path, FileChange] = {}
    for _, change in planned:
        previous = joined.get(change.path)
        joined[change.path] = replace(previous, after=change.after) if previous else change
    return list(joined.values())


def uninstall(home: Path, planned: Sequence[tuple[InstalledFile, FileChange]]) -> list[str]:
    """Make the planned changes and remove them from the manifest. Returns the removed folders. Raises Refused, Conflict."""
    joined = join_changes(planned)
    needed = [change for change in joined if change.changes]
    _check(home, needed)
    with _manifest_lock(home) if home.is_dir() else nullcontext():
        _check(home, needed)
        recorded = read_manifest(home)  # raises before anything is changed
        for change in joined:
            clear_partials(change.path)
        _write_all(needed)
        removed_folders = _remove_folders(planned)
        _forget(home, recorded, planned)
    return removed_folders


def _remove_folders(planned: Sequence[tuple[InstalledFile, FileChange]]) -> list[str]:
    removed = []
    for record, change in planned:
        folders = record.folders
        parent = change.path.parent
        if record.place and is_unrecorded(record.undo) and change.changes and change.after is None:
            folders = (str(parent),) if parent.name in CLIENT_FOLDERS else ()
        for folder in reversed(folders):
            with suppress(OSError):  # not empty
                Path(folder).rmdir()
                removed.append(folder)
    return removed


def _forget(home: Path, recorded: Manifest, planned: Sequence[tuple[InstalledFile, FileChange]]) -> None:
    keys = {_key(record) for record, _ in planned}
    remaining = tuple(
        _inherit_ownership(other, planned) for other in recorded.records if _key(other) not in keys
    )
    if remaining != recorded.records:
        save_manifest(home, replace(recorded, records=remaining))
    _drop_backups(home, [record for record, _ in planned if record.now])


@contextmanager
def _manifest_lock(home: Path) -> Iterator[None]:
    """A lock for reading, changing and writing the manifest. Raises Refused, Conflict."""
    path = home / LOCK
    try:
        make_folders(home, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise _write_error(path, error) from error
    try:
        _acquire(descriptor, path)
        clear_partials(home / MANIFEST_FILE)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise Conflict(
                    "Another call of Mindhold sets something up right now.",
                    advice="Try again; nothing was written.",
                )
            time.sleep(PAUSE_SECONDS)
    except OSError as error:
        raise _write_error(path, error) from error


def _without(home: Path, record: InstalledFile, current: bytes | None) -> bytes | None:
    if current is None:
        return None
    if record.now is not None and hash_content(current) == record.now:
        if record.made:
            return None
        if record.backup is not None:
            backup = read(home / record.backup)
            if backup is not None and hash_content(backup) == record.was:
                return backup
    remaining = remove_ours(Path(record.path), current, record.undo)
    if remaining == current or remaining.removeprefix(BOM_UTF8).strip() not in (b"", b"{}"):
        return remaining
    # Nothing else is in it: without a record, assume that it was created for us.
    return None if record.made or is_unrecorded(record.undo) else remaining


def _record(change: FileChange, place: str, client: str, backup: str | None) -> InstalledFile:
    real = Path(os.path.realpath(change.path))
    missing = [str(parent) for parent in real.parents if not parent.exists()][::-1]
    return InstalledFile(
        path=str(change.path),
        place=place,
        client=client,
        made=change.before is None,
        folders=tuple(missing),
        backup=backup,
        was=hash_content(change.before),
        now=hash_content(change.after),
        undo=change.undo,
    )


def _update_record(previous: InstalledFile, new: InstalledFile, change: FileChange) -> InstalledFile:
    """The record after another insertion into the same file."""
    if change.before is None or (new.was == previous.was and not previous.made):
        return new  # our insertion isn't there any more
    undo = merge_notes(previous.undo, new.undo)
    if new.was == previous.now:
        return replace(previous, now=new.now, undo=undo)
    return replace(previous, backup=None, was=None, now=None, undo=undo)


def _inherit_ownership(
    record: InstalledFile, planned: Sequence[tuple[InstalledFile, FileChange]]
) -> InstalledFile:
    """The last record of a file that was created for us takes over its removal."""
    for removed, change in planned:
        if removed.path == record.path and removed.made and change.after is not None:
            return replace(record, made=True, folders=removed.folders)
    return record


def _key(record: InstalledFile) -> tuple[str, str, str]:
    return record.path, record.place, record.client


def _check(home: Path, changes: Sequence[FileChange]) -> None:
    for change in changes:
        check_writable(change.path)
        if read(change.path) != change.before:
            raise Conflict(f"{change.path} was changed meanwhile.", advice="Try again; nothing was written.")
    check_writable(home / MANIFEST_FILE)


def _back_up(home: Path, changes: Sequence[FileChange], now: datetime) -> tuple[Path | None, dict[str, str]]:
    existing = [(change, change.before) for change in changes if change.before is not None]
    if not existing:
        return None, {}
    folder = home.joinpath(*BACKUPS, f"{now:%Y%m%dT%H%M%S.%fZ}")
    backups = {}
    try:
        make_folders(folder, mode=0o700)
        for number, (change, content) in enumerate(existing, 1):
            path = folder / f"{number}-{change.path.name}"
            write(path, content, mode=0o600)
            backups[str(change.path)] = path.relative_to(home).as_posix()
    except OSError as error:
        raise _write_error(folder, error) from error
    return folder, backups


def _drop_backups(home: Path, records: Iterable[InstalledFile]) -> None:
    """Remove backups of files that have their old content again."""
    for record in records:
        if record.backup is not None and (content := read(Path(record.path))) is not None:
            path = home / record.backup
            if hash_content(content) == record.was:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                    path.parent.rmdir()


def _write_all(changes: Sequence[FileChange]) -> None:
    """Write all files, or none. Raises Refused."""
    written: list[FileChange] = []
    new_folders: list[Path] = []
    try:
        for change in changes:
            new_folders += _write(change.path, change.after)
            written.append(change)
    except OSError as error:
        for change in reversed(written):
            with suppress(OSError):
                _write(change.path, change.before)
        for folder in reversed(new_folders):
            with suppress(OSError):
                folder.rmdir()
        raise _write_error(Path(str(error.filename or changes[0].path)), error) from error


def _write(path: Path, content: bytes | None) -> list[Path]:
    if content is None:
        remove(path)
        return []
    return write(path, content)


def _write_error(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{path} can't be written: {error.strerror}.",
        advice="Check permissions and room on the disk; all is as it was.",
    )
