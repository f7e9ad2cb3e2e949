"""Mindhold over HTTP, from Python: `Mindhold` waits, `AsyncMindhold` is awaited.

Errors are those of mindhold.model.errors, as the operation raised them on the server; one that can't be reached is
ServerAway.
"""

from mindhold.client.asynchronous import AsyncMindhold
from mindhold.client.events import Event
from mindhold.client.sync import Mindhold

__all__ = ["AsyncMindhold", "Event", "Mindhold"]
