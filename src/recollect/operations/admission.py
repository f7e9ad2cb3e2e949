"""The one gate before every operation: whether this caller may, and what of the store they are given."""

from __future__ import annotations

from typing import Any

from recollect.engine.core import Engine
from recollect.model.access import Caller
from recollect.model.errors import Refused
from recollect.operations.catalogue import Effect, Operation


def admitted(engine: Engine, operation: Operation[Any, Any], caller: Caller) -> Engine:
    """The engine as this caller may use it. Raises Refused."""
    if operation.owner_only and not caller.owner:
        raise Refused(f"{operation.name} is for the owner of this Recollect.", advice="Use the owner's key.")
    if operation.effect is not Effect.READS and not caller.writes:
        raise Refused("This key may only read.", advice="Ask the owner for a key that may write.")
    return engine
