"""What tells one state of a memory from another, for callers that change only what they have seen."""

from __future__ import annotations

from hashlib import sha256

from mindhold.model.memory import Memory, moment_of
from mindhold.operations.catalogue import Output


def etag_of(memory: Memory, shown: Output) -> str:
    """When it was last updated, which is what an amendment may expect, and a sum of all that is shown."""
    return f"{moment_of(memory)}-{sha256(shown.model_dump_json().encode()).hexdigest()[:8]}"
