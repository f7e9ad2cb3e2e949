"""What can be set of backups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mindhold.settings.setting import setting

PASSPHRASE = "backup.passphrase"
_LONGEST = 10_000  # bytes; what is longer is no passphrase


@dataclass(frozen=True, slots=True)
class BackupSettings:
    schedule: bool = setting(True, "Make a backup every day, by maintenance, and drop the oldest of them.")
    keep_daily: int = setting(7, "Daily backups that are kept.", least=1, most=366)
    keep_weekly: int = setting(4, "Weekly backups that are kept: the first of each week.", least=0, most=520)
    encrypt: bool = setting(
        False, "Encrypt every backup. Without a passphrase none is made: none is made in clear."
    )
    passphrase: str = setting(
        "",
        "What backups are encrypted with, for the time of a call. Set it in the environment or use passphrase_file: the "
        "settings file is no place for it, and refuses it.",
        secret=True,
    )
    passphrase_file: str = setting("", "A file whose first line is the passphrase; for your eyes alone.")


def passphrase_of(chosen: BackupSettings) -> str:
    """As it was given, or the first line of the file that was named; empty where that can't be read."""
    if chosen.passphrase or not chosen.passphrase_file:
        return chosen.passphrase
    return first_line(Path(chosen.passphrase_file).expanduser()) or ""


def first_line(path: Path) -> str | None:
    """None where there is none to be read."""
    try:
        if not path.is_file():  # a pipe would never end
            return None
        with path.open("rb") as file:
            lines = file.read(_LONGEST).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return None
    return lines[0] if lines and lines[0] else None
