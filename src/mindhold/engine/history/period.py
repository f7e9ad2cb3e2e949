"""The time that a question about the past speaks of."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from mindhold.engine.timeframe import Timeframe, find_timeframe, parse_timeframe
from mindhold.model.errors import UnknownTime

# What names a season for certain: `spring` alone may be water, and `fall` what things do.
_SEASON = re.compile(
    r"\b(?:in|during|over|since|before|after|of) (?:the (?:early |late )?(?:autumn|fall|winter|summer|spring)"
    r"|(?:early |late )?(?:autumn|winter|summer))\b"
    r"|\b(?:im|seit|vor|nach) (?:dem |der )?(?:Herbst|Winter|Sommer|Frühling|Frühjahr"
    r"|Januar|Februar|März|April|Juni|Juli|August|September|Oktober|November|Dezember)\b"
    r"|\b(?:en|desde|durante) (?:el )?(?:otoño|invierno|verano|primavera|enero|febrero|marzo|abril|junio|julio|agosto"
    r"|septiembre|octubre|noviembre|diciembre)\b"
    r"|(?:봄|여름|가을|겨울)에"
)


def period_of(query: str, *, now: datetime, zone: ZoneInfo, date_order: str) -> Timeframe | None:
    """None where it speaks of none, or of several."""
    found = find_timeframe(query, now=now, zone=zone, date_order=date_order)
    if found is not None:
        return found
    seasons = _SEASON.findall(query[:2000])
    if len(seasons) != 1:
        return None
    try:
        season = parse_timeframe(seasons[0], now=now, zone=zone, date_order=date_order)
    except UnknownTime:
        return None
    return None if season.start and season.start > now else replace(season, phrase=seasons[0])
