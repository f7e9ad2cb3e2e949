"""The HTTP client: `Mindhold` is synchronous, `AsyncMindhold` is asynchronous.

Errors are those of mindhold.model.errors, as the operation raised them on the server. A server that can't be reached
raises ServerAway.
"""

from mindhold.client.api import AsyncMindhold, Mindhold
from mindhold.client.api import ServerEvent as Event

__all__ = ["AsyncMindhold", "Event", "Mindhold"]
