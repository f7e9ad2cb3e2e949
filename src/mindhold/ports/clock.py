"""Time and identity, injected so that tests need no sleep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

Clock = Callable[[], datetime]  # the present instant, in UTC
NewId = Callable[[], str]  # a fresh id; ids sort by the time they were made
