"""What every file says that takes memories out of the store."""

from __future__ import annotations

PERSONAL = "This file holds personal data: keep it private, and delete it when it has served its purpose."
