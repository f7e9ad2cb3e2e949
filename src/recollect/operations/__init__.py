"""THE catalogue: every operation once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.operations.catalogue import Call, Effect, Input, Operation, Output
from recollect.operations.keeping import (
    CHANGE_SCOPE,
    CREATE_SCOPE,
    DELETE_SCOPE,
    EXPORT,
    IMPORT,
    LIST_SCOPES,
    RENAME_SCOPE,
    SHOW_SCOPE,
)
from recollect.operations.reading import LIST, RECALL, SHOW, TAGS, TIMELINE
from recollect.operations.upkeep import (
    CANCEL_JOB,
    DOCTOR,
    EMBED_MISSING,
    LIST_JOBS,
    LIST_MODELS,
    PULL_MODEL,
    REMOVE_MODEL,
    RETRY_JOB,
    RUN_JOBS,
    STATUS,
)
from recollect.operations.writing import AMEND, FORGET, LINK, REMEMBER, REMEMBER_MANY, UNFORGET, UNLINK

CATALOGUE: Mapping[str, Operation[Any, Any]] = {
    operation.name: operation
    for operation in (
        REMEMBER,
        REMEMBER_MANY,
        RECALL,
        SHOW,
        LIST,
        AMEND,
        FORGET,
        UNFORGET,
        LINK,
        UNLINK,
        TAGS,
        TIMELINE,
        LIST_SCOPES,
        SHOW_SCOPE,
        CREATE_SCOPE,
        CHANGE_SCOPE,
        RENAME_SCOPE,
        DELETE_SCOPE,
        EXPORT,
        IMPORT,
        STATUS,
        DOCTOR,
        LIST_JOBS,
        RUN_JOBS,
        RETRY_JOB,
        CANCEL_JOB,
        LIST_MODELS,
        PULL_MODEL,
        REMOVE_MODEL,
        EMBED_MISSING,
    )
}

__all__ = ["CATALOGUE", "Call", "Effect", "Input", "Operation", "Output"]
