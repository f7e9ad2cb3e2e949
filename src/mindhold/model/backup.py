"""How backups are made, and how long they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackupRules:
    """The knobs of backups. The passphrase is known while the process runs, and shown by nothing."""

    schedule: bool = True
    keep_daily: int = 7
    keep_weekly: int = 4
    encrypt: bool = False
    passphrase: str = field(default="", repr=False)
