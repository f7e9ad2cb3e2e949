"""Where a server is, checked before anything goes there."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mindhold.model.errors import SettingsError
from mindhold.model.loopback import is_loopback


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address without a slash at its end, and the key that opens it."""

    url: str
    host: str
    key: str = field(default="", repr=False)

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""
        return is_loopback(self.host)

    @property
    def is_private(self) -> bool:
        """Whether nobody can read on the way."""
        return self.url.startswith("https:")


def place_of(url: str, *, key: str = "", insecure: bool = False) -> Place:
    """Raises SettingsError, also for a key that others could read on its way, unless `insecure`."""
    given = url.strip()
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong("is none") from error
    if parts.scheme not in ("http", "https") or not host or " " in given or not given.isprintable():
        raise _wrong("is none")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _wrong("holds more than a place", advice="Give the address alone; the key is given apart.")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError("The key holds characters that no key has.", advice="Copy it anew.")
    if key and parts.scheme == "http" and not is_loopback(host) and not insecure:
        raise SettingsError(
            f"The key would go to {host} by plain http, where others can read it.",
            advice="Use https://; for a network that you trust say `insecure` (`-o remote.insecure=true`).",
        )
    return Place(f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}", host, key)


def _wrong(what: str, *, advice: str = "Give one such as http://localhost:3333.") -> SettingsError:
    return SettingsError(f"The server's address {what}.", advice=advice)
