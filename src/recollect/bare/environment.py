"""What the surroundings say: which home, which project, and whether we are to keep out of it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_CALL = ("RECOLLECT_EXTRACTING", "RECOLLECT_SKIP")  # set for programs that Recollect itself asks


def home(environ: Mapping[str, str] | None = None, given: str = "") -> str:
    """The home folder, as the settings have it: what is given, RECOLLECT_HOME, ~/.recollect."""
    environ = os.environ if environ is None else environ
    chosen = given or environ.get("RECOLLECT_HOME") or os.path.join("~", ".recollect")
    return os.path.abspath(os.path.expanduser(chosen))


def skipped(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a hook is to do nothing: it was fired by a call of our own, or the person said so."""
    environ = os.environ if environ is None else environ
    return any(environ.get(name) for name in OWN_CALL)


def project_dir(environ: Mapping[str, str] | None = None, cwd: str = "") -> str:
    """Where the client was started; a command in the conversation may have gone elsewhere since."""
    environ = os.environ if environ is None else environ
    started = environ.get("CLAUDE_PROJECT_DIR", "")
    return started if started and os.path.isdir(started) else cwd or os.getcwd()


def for_worker(home: str) -> dict[str, str]:
    """The environment of a worker for that home."""
    return {**os.environ, "RECOLLECT_HOME": home}
