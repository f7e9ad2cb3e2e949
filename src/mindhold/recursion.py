"""Which RLM server the settings ask for: settings in, a client out. Nothing is started from here."""

from __future__ import annotations

import shlex
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

from mindhold.ports.rlm import RlmServer
from mindhold.settings import surroundings
from mindhold.settings.declared import Settings
from mindhold.settings.history import RlmSettings

DESK = "rlm"  # in the home folder: what the server writes down of what it is given, until it ends
SCRIPTS = ("rlm-mcp-server", "rlm-server")  # what its project calls it


def rlm_server(settings: Settings) -> RlmServer | None:
    """None unless the person chose one."""
    chosen = settings.rlm
    if not chosen.command.strip() and not chosen.server_path.strip():
        return None
    from mindhold.providers.rlm.client import McpRlm  # for those who use one

    command, folder, advice = started_by(chosen)
    return McpRlm(
        command,
        cwd=folder,
        start_seconds=chosen.start_seconds,
        call_seconds=chosen.timeout_seconds,
        tries=chosen.tries,
        environ=surroundings(),
        desk=settings.home / DESK,
        advice=advice,
    )


def started_by(chosen: RlmSettings) -> tuple[list[str], Path | None, str]:
    """The command, where it runs, and what to do when that fails."""
    folder = Path(chosen.server_path.strip()).expanduser() if chosen.server_path.strip() else None
    if chosen.command.strip():
        command = _parts(chosen.command)
        where = f" in {folder}" if folder else ""
        # What stands behind the program may be a key.
        return command, folder, f"Ensure that rlm.command starts it{where}; its program is {command[0]}."
    assert folder is not None
    command = ["uv", "run", _script(folder)]
    started = " ".join(command)
    return (
        command,
        folder,
        f"Ensure RLM is installed: uv pip install -e {folder} (rlm.server_path). It is started there by: {started}",
    )


def _parts(command: str) -> list[str]:
    """As a shell would split it. On Windows a backslash is part of a path."""
    try:
        if sys.platform != "win32":
            return [
                str(Path(part).expanduser()) if part.startswith("~") else part
                for part in shlex.split(command)
            ]
        return [part.strip('"') for part in shlex.split(command, posix=False)]
    except ValueError:  # a quotation that doesn't end
        return command.split()


def _script(folder: Path) -> str:
    """Of those that the project in the folder has, else the usual one."""
    scripts: object = {}
    with suppress(OSError, ValueError):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        scripts = project.get("scripts", {}) if isinstance(project, dict) else {}
    known = [name for name in SCRIPTS if isinstance(scripts, dict) and name in scripts]
    return (known or SCRIPTS)[0]
