"""Recollect over HTTP, from Python: `Recollect` waits, `AsyncRecollect` is awaited.

Errors are those of recollect.model.errors, as the operation raised them on the server; one that can't be reached is
ServerAway.
"""

from recollect.client.asynchronous import AsyncRecollect
from recollect.client.events import Event
from recollect.client.sync import Recollect

__all__ = ["AsyncRecollect", "Event", "Recollect"]
