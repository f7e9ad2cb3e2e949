"""Where the programs of others keep their settings, as the environment says."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mindhold.model.places import Places
from mindhold.settings.declared import Settings


def places(
    settings: Settings, *, environ: Mapping[str, str] | None = None, platform: str = sys.platform
) -> Places:
    """For this person, on this machine."""
    environment = os.environ if environ is None else environ
    user = Path.home() if environ is None else Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        programs = user / "Library" / "Application Support"
    elif platform == "win32":
        programs = Path(environment.get("APPDATA") or user / "AppData" / "Roaming")
    else:
        programs = Path(environment.get("XDG_CONFIG_HOME") or user / ".config")
    codex = Path(environment.get("CODEX_HOME") or user / ".codex")
    claude = settings.claude_dir if settings.history.claude_dir else user / ".claude"
    return Places(
        user=user, programs=programs.expanduser(), codex=codex.expanduser(), claude=claude.absolute()
    )
