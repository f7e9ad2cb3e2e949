"""The settings file, edited as a person would: comments and everything else in it stay."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindhold.interfaces.cli.launcher import CARRY_OVER
from mindhold.interfaces.cli.output import plural
from mindhold.interfaces.cli.session import Session
from mindhold.model.errors import SettingsError, StoreReadOnly
from mindhold.settings.declared import Settings

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def settings_file(session: Session) -> Path:
    """Found without reading it: it may be what is wrong."""
    home = session.arguments.get("home")
    settings = Settings(home=Path(home).expanduser().absolute()) if home else Settings()
    return settings.config_file


def put_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write these settings, all of them or none. Raises SettingsError, StoreReadOnly."""

    def with_values(document: TOMLDocument) -> None:
        for key, value in values.items():
            _put(document, key, value, path)

    edit_file(path, with_values)


def _put(document: TOMLDocument, key: str, value: Any, path: Path) -> None:
    import tomlkit

    section, _, name = key.rpartition(".")
    if not section:
        document[name] = value
        return
    if section not in document:
        document[section] = tomlkit.table()
    table: Any = document[section]
    if not isinstance(table, dict):
        raise SettingsError(f"{section!r} in {path} is not a table.", advice=f"Make it [{section}].")
    table[name] = value


def edit_file(path: Path, change: Callable[[TOMLDocument], None]) -> None:
    """Change it and write it, if that makes a difference. Raises SettingsError, StoreReadOnly."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        document = tomlkit.parse(text)
    except (ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.", advice="Correct that line.") from error
    except OSError as error:
        raise SettingsError(
            f"{path} can't be read: {error.strerror}.", advice="Check its permissions."
        ) from error
    change(document)
    after = tomlkit.dumps(document)
    if after != text:
        _write(path, after)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for the owner only: mkstemp makes files 0600."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"{path} can't be written: {error.strerror}.", advice="Check the folder's permissions."
        ) from error


def tell_anew(session: Session, key: str) -> None:
    """What hooks tell lies ready, made by the settings before: it is blank at once, and a worker makes it anew."""
    from mindhold.bare import leaflet
    from mindhold.bare.spawn import have_leaflets_made

    home = str(settings_file(session).parent)
    if not key.startswith("capture.") and key != "agent":
        return
    try:
        if leaflet.blank(home):
            have_leaflets_made(home)
    except OSError as error:
        session.console.warn(f"note: hooks tell by the old value until their next event: {error.strerror}.")


def tell_leftover(session: Session) -> None:
    """The new store doesn't know what is in the file."""
    left = session.launcher.leftover(session.loaded()).memories
    if left:
        kept = f"The local file keeps its {plural(left, 'memory')}, which the new store doesn't have"
        session.console.note(f"{kept}: {CARRY_OVER}")
