"""The real Claude Code, run with a scripted model behind it in a home of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripted import Json, Say, ScriptedModel, Use, serving

MODULES = Path(__file__).resolve().parents[2] / ".cache" / "claude" / "node_modules"
NEWEST, OLD = "newest", "2.1.100"  # clients; the old one ignores `args` of hooks, as all before 2.1.139 do
LEFT_OUT = ("ANTHROPIC_", "CLAUDE", "MINDHOLD_", "ENABLE_", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class Ran:
    """What it printed, and what its model was asked."""

    said: str
    requests: list[Json]


def program(client: str = NEWEST) -> list[str]:
    """How the program that npm brought is started."""
    if client == OLD:
        script = MODULES / f"claude-code-{OLD}" / "cli.js"
        assert script.is_file(), "make test-claude installs it"
        return ["node", str(script)]
    places = [f"@anthropic-ai/claude-code-*/{name}" for name in ("claude", "claude.exe")]
    found = [path for place in places for path in MODULES.glob(place)]
    assert found, "make test-claude installs it"
    return [str(found[0])]


def surrounded(user: Path, **variables: str) -> dict[str, str]:
    """The environment of a person with that home, who lets nothing else out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    own = {
        "HOME": str(user),
        "USERPROFILE": str(user),
        "ANTHROPIC_API_KEY": "made-up",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    return kept | own | variables


def claude(
    argv: Sequence[str],
    turns: Sequence[Say | Use],
    *,
    folder: Path,
    user: Path,
    client: str = NEWEST,
    **variables: str,
) -> Ran:
    """One run of it, to its end. What it prints on failing is the assertion's."""
    with serving(ScriptedModel(turns)) as model:
        done = subprocess.run(
            [*program(client), *argv],
            cwd=folder,
            env=surrounded(user, ANTHROPIC_BASE_URL=model.url, **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=180,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(done.stdout.strip(), model.conversation())
