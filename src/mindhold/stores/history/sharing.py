"""Which conversations have entries of others: a resumed or forked one begins with those of the one before."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection

import numpy as np

_LISTED = "(SELECT value FROM json_each(?))"
KEYS_OF = f"SELECT keys FROM entries WHERE conversation IN {_LISTED}"
OTHERS = f"SELECT conversation, keys FROM entries WHERE conversation NOT IN {_LISTED}"


def sharing(connection: sqlite3.Connection, rows: Collection[int]) -> dict[int, int]:
    """How many entries of these each other one has."""
    listed = json.dumps(sorted(rows))
    own = b"".join(keys for (keys,) in connection.execute(KEYS_OF, (listed,)))
    wanted = np.unique(np.frombuffer(own, dtype="<u8"))
    found: Counter[int] = Counter()
    if not len(wanted):
        return {}
    for conversation, keys in connection.execute(OTHERS, (listed,)):
        there = np.frombuffer(keys, dtype="<u8")
        if shared := int(np.isin(there, wanted).sum()):
            found[conversation] += shared
    return dict(found)
