"""A short name for a long text. hashlib loads all of OpenSSL, which takes longer than the rest of a hook."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

LENGTH = 24


def digest(text: str) -> str:
    """Of any text, one that no encoding knows included."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]
