"""Which records come before and after each other in their conversations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mindhold.stores.sketch import Slots, distinct

Keys = npt.NDArray[np.int64]

NO_KEY = -1
_LAST_POSITION = 2**31 - 1
_REACH = 2  # so that the same speaker's turn before is among them
_MOST_AT_ONE_PLACE = 8
_MOST_LOOSE = 1000


class Adjacency:
    """Slots by conversation and position.

    Most are in one sorted array; what came since is in a dictionary, so that one new record costs no sorting.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sorted = np.empty(0, np.int64)
        self._slots = np.empty(0, np.int64)
        self._loose: dict[int, list[int]] = {}
        self._unsorted = 0

    def keys(self, conversations: Sequence[str | None], positions: Sequence[int | None]) -> Keys:
        """One number for each place; NO_KEY where there is none."""
        numbers = self._numbers
        named = [NO_KEY if name is None else numbers.setdefault(name, len(numbers)) for name in conversations]
        places = np.array([NO_KEY if place is None else place for place in positions], dtype=np.int64)
        keys = np.array(named, dtype=np.int64) << 32 | places
        keys[(places < 0) | (places > _LAST_POSITION) | (keys < 0)] = NO_KEY
        return keys

    def put(self, slots: Slots, keys: Keys) -> None:
        """These slots are now at these places."""
        placed = keys >= 0
        self._unsorted += int(np.count_nonzero(placed))
        if self._unsorted <= _MOST_LOOSE:
            for key, slot in zip(keys[placed].tolist(), slots[placed].tolist(), strict=True):
                self._loose.setdefault(key, []).append(slot)

    def settle(self, all_keys: Keys, *, anew: bool = False) -> None:
        """To be called after changes, with the keys of all slots: sorts if there were many."""
        if anew or self._unsorted > _MOST_LOOSE:
            slots = np.flatnonzero(all_keys >= 0)
            self._slots = slots[np.argsort(all_keys[slots], kind="stable")]
            self._sorted = all_keys[self._slots]
            self._loose, self._unsorted = {}, 0

    def beside(self, keys: Keys, all_keys: Keys) -> Slots:
        """The slots up to two places before or after these keys; may repeat."""
        placed = keys[keys >= 0]
        steps = [step for step in range(-_REACH, _REACH + 1) if step]
        wanted = distinct(np.add.outer(steps, placed))
        first = np.searchsorted(self._sorted, wanted, side="left")
        last = np.searchsorted(self._sorted, wanted, side="right")
        found = [np.empty(0, np.int64)]
        for step in range(_MOST_AT_ONE_PLACE):
            here = first + step
            here = here[here < last]
            if not len(here):
                break
            slots, sought = self._slots[here], self._sorted[here]
            found.append(slots[all_keys[slots] == sought])
        for key in wanted.tolist() if self._loose else ():
            slots = np.array(self._loose.get(key, [])[-_MOST_AT_ONE_PLACE:], dtype=np.int64)
            found.append(slots[all_keys[slots] == key])
        return np.concatenate(found)
