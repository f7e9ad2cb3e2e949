"""The HTTP client: `Mindhold` is synchronous, `AsyncMindhold` is asynchronous.

Errors are those of mindhold.model.errors, as the operation raised them on the server; ServerAway is raised when the
server can't be reached.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindhold.client.api import AsyncMindhold, Mindhold
    from mindhold.client.api import ServerEvent as Event

__all__ = ["AsyncMindhold", "Event", "Mindhold"]


def __getattr__(name: str) -> Any:
    """Load the clients when they are first used: httpx2 takes long to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mindhold.client import api

    return getattr(api, "ServerEvent" if name == "Event" else name)
