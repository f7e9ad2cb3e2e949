"""Small keyed values that may expire: keys, grants, visits, conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a drawer; from `expires` on it is as if it were not there. Its value is not shown by repr()."""

    drawer: str
    key: str
    value: Mapping[str, Any] = field(repr=False)
    created: datetime
    expires: datetime | None = None
