"""New secrets, the hashes that are stored of them, and the check of agent ids. Imports nothing heavy: operations need it before every call."""

from __future__ import annotations

import hashlib
import secrets

from mindhold.model.errors import InvalidInput
from mindhold.model.scope import LONGEST_NAME, PRIVILEGED_AGENTS

_SECRET_BYTES = 32


def new_secret(prefix: str) -> str:
    """A random secret with a prefix that says its kind."""
    return prefix + secrets.token_urlsafe(_SECRET_BYTES)


def fingerprint(secret: str) -> str:
    """The hash that the store has of a secret. 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def checked_agent(name: str) -> str:
    """The agent's name. Raises InvalidInput, also for names that look like system or admin."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f"{name[:40]!r} can't be an agent's name.",
            advice=f"Use at most {LONGEST_NAME} printable characters, without blanks around them.",
        )
    if name.casefold() in PRIVILEGED_AGENTS and name not in PRIVILEGED_AGENTS:
        raise InvalidInput(
            f"{name!r} could be mistaken for {name.casefold()!r}, who sees everything.",
            advice="Spell it as it is meant.",
        )
    return name
