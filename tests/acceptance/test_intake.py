"""Remembering: what is kept, how, and what never is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest_types import Open
from front_door import acting, everything, found, on_disk, raw, recall, remember, run, show, stored

from recollect.app import App
from recollect.model.errors import ContentTooLarge, InvalidInput, MemoryNotFound, Refused, ScopeNotFound
from recollect.operations.keeping import CHANGE_SCOPE, CREATE_SCOPE
from recollect.operations.upkeep import RUN_JOBS, STATUS
from recollect.operations.writing import FORGET, REMEMBER_MANY
