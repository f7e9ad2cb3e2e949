"""The store over all stores keeps the same contract where everything is at home, and where nothing is."""

from __future__ import annotations

from typing import ClassVar

from test_routed import RoutedContract

from mindhold.model.scope import GLOBAL


class TestEverythingAtHome(RoutedContract):
    """As without it."""


class TestEverythingElsewhere(RoutedContract):
    """Only scopes, jobs, cursors and entries are at home."""

    away: ClassVar = {GLOBAL: "postgres", "work": "postgres"}
