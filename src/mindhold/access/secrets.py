"""New secrets, the hashes that are stored of them, and the check of agent ids. Imports nothing heavy: operations need it before every call."""

from __future__ import annotations

import hashlib
import secrets

_SECRET_BYTES = 32


def new_secret(prefix: str) -> str:
    """A random secret with a prefix that says its kind."""
    return prefix + secrets.token_urlsafe(_SECRET_BYTES)


def fingerprint(secret: str) -> str:
    """The hash that the store has of a secret. 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
