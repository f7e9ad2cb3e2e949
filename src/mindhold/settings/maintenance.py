"""What can be set of the nightly maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time

from mindhold.settings.setting import setting


def hour_of(text: str) -> time:
    """Raises ValueError."""
    hours, _, minutes = text.strip().partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2):
        raise ValueError(text)
    return time(int(hours), int(minutes))


def _no_hour(text: str) -> str:
    try:
        hour_of(text)
    except ValueError:
        return "no time of day; one such as 03:00 is"
    return ""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    schedule: bool = setting(True, "Whether maintenance runs every night by itself, where something runs.")
    hour: str = setting("03:00", "At what time of the person's day it is due.", doubt=_no_hour)
    idle_minutes: int = setting(
        5,
        "How long nobody may have called for it to begin; it waits for that, but not for hours.",
        least=0,
        most=240,
    )
    seconds: int = setting(600, "Seconds that one maintenance may take.", least=1, most=86_400)
