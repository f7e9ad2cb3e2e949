"""Conversations as Claude Code writes them, hooks as it runs them, and what a home holds in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from mindhold.app.application import open_app
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.settings.loader import LoadedSettings, load_settings

PATIENCE = 90.0  # for what must come about in the end
DECISION = "We decided to use {0} for the {1} store, because the {1} reports need joins."
PREFERENCE = "Always write the {1} tests in {0}, never by hand."
Settings = Mapping[str, Any]
NONE: Settings = MappingProxyType({})


def said(*texts: str) -> list[dict[str, Any]]:
    """A person's words and the assistant's, in turn."""
    entries = []
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        content: Any = [{"type": "text", "text": text}] if number % 2 else text
        entries.append({"type": role, "message": {"id": f"m{number}", "role": role, "content": content}})
    return entries


def about(thing: str, place: str) -> list[dict[str, Any]]:
    """A conversation in which a decision falls and a preference is told."""
    return said(
        DECISION.format(thing, place),
        f"Good, the {place} store is {thing}.",
        PREFERENCE.format(thing, place),
        "Understood.",
    )


def write_conversation(folder: Path, name: str, entries: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    lines = [
        {"sessionId": name, "uuid": f"{name}-{number}", "timestamp": "2026-03-01T10:00:00Z", **entry}
        for number, entry in enumerate(entries)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def given(event: str, file: Path, folder: Path, **more: Any) -> dict[str, Any]:
    """What a hook is handed."""
    return {
        "session_id": file.stem,
        "transcript_path": str(file),
        "cwd": str(folder),
        "hook_event_name": event,
        **more,
    }


def environment(home: Path, settings: Settings, **more: str) -> dict[str, str]:
    """What a hook is started with: nothing of this machine's own settings."""
    left_out = ("MINDHOLD_", "CLAUDE", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own = {"home": home, "embedding.provider": "hashing", "time_zone": "UTC", **settings}
    chosen = {f"MINDHOLD_{key.replace('.', '_').upper()}": str(value) for key, value in own.items()}
    return {**kept, **chosen, "PYTHONUTF8": "1", **more}


def start_hook(
    home: Path, told: Mapping[str, Any], settings: Settings = NONE, **more: str
) -> subprocess.Popen[bytes]:
    """`mindhold hook`, running."""
    hook = subprocess.Popen(
        [sys.executable, "-m", "mindhold", "hook", told["hook_event_name"]],
        env=environment(home, settings, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(told).encode())
    hook.stdin.close()
    hook.stdin = None
    return hook


def ended(hook: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it printed; it must have ended well."""
    out, err = hook.communicate(timeout=PATIENCE)
    assert hook.returncode == 0
    return out, err


def run_hook(
    home: Path, told: Mapping[str, Any], settings: Settings = NONE, **more: str
) -> tuple[bytes, bytes]:
    return ended(start_hook(home, told, settings, **more))


def workers(home: Path) -> list[psutil.Process]:
    """Processes that are there for this home, besides this one."""
    found = []
    for process in psutil.process_iter():
        try:
            other = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if other and process.environ().get("MINDHOLD_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            continue
    return found


def until(so: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < limit, f"not within {PATIENCE:.0f} seconds: {what}"
        time.sleep(0.05)


def until_quiet(home: Path) -> None:
    """Until no process of the home is left."""
    until(lambda: not workers(home), "no process is left")


def waiting(home: Path) -> list[dict[str, Any]]:
    """Events that wait."""
    files = sorted((home / "hooks" / "waiting").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def loaded(home: Path, settings: Settings = NONE) -> LoadedSettings:
    chosen = {"home": home, "embedding.provider": "hashing", "time_zone": "UTC", **settings}
    return load_settings(chosen, environ={})


async def captured(home: Path, settings: Settings = NONE) -> list[tuple[str, str, str, str]]:
    """Everything that the home remembers: scope, kind, status and content, sorted."""
    async with open_app(loaded(home, settings)) as app:
        where = Filter(viewer="system", statuses=ANY_STATUS)
        memories = [memory async for batch in app.engine.store.scan(where) for memory in batch]
    return sorted((one.scope, one.kind.value, one.status.value, one.content) for one in memories)
