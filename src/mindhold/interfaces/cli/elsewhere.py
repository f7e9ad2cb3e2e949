"""Which commands can be asked of a server, and what those are told that can't."""

from __future__ import annotations

from mindhold.interfaces.cli.session import Session
from mindhold.model.errors import InvalidInput, SettingsError

SERVED = frozenset(
    "remember recall search ask list show amend link forget unarchive tags timeline versions reconstruct context conversations profile "
    "reflect explore feedback scopes projects status stats spend consolidate audit contradictions jobs export".split()
)
# Of those that need this machine for the rest.
SERVED_PARTS = frozenset({"history search", "history timeline", "history projects"})
# They are about this machine by their nature: a server that the settings name is no reason not to do them here.
OF_THIS_MACHINE = frozenset(
    "config completion setup init uninstall connect mcp serve hook statusline models demo".split()
)
REMOTE_URL = "remote.url"


def check_place(session: Session, name: str, *parts: str) -> None:
    """Raises InvalidInput for a command that was asked of a server and needs this machine."""
    words = " ".join((name, *parts))
    if name in SERVED or words in SERVED_PARTS:
        return
    said: str | None = session.arguments.get(REMOTE_URL)
    here = "leave --server out to have it done on this machine"
    if said is None and name not in OF_THIS_MACHINE:
        said, here = _from_settings(session), "`-o remote.url=` has it done on this machine"
    if said:
        raise InvalidInput(
            f"`mindhold {words}` needs the machine that it is run on, and can't be asked of the server at {said}.",
            advice=f"Run it there; {here}.",
        )


def _from_settings(session: Session) -> str:
    try:
        return session.loaded().settings.remote.url
    except SettingsError:  # the command tells, in its own way
        return ""
