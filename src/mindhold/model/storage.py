"""The storage modes: what a project may live in."""

from __future__ import annotations

from typing import Literal, get_args

StorageMode = Literal["local", "postgres", "mongodb"]
MODES: tuple[StorageMode, ...] = get_args(StorageMode)
LOCAL, POSTGRES, MONGODB = MODES
