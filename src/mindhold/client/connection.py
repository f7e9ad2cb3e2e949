"""The HTTP connections to one server, for both clients. Imports httpx2, so it is imported late."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import httpx2

from mindhold.client.wire import LostRequest, ServerAddress
from mindhold.model.errors import InvalidInput, ServerError, SettingsError

C = TypeVar("C")
CONNECT_SECONDS = 5.0
QUIET_SECONDS = 60.0  # of a stream that says at least every quarter of a minute that it is there
NO_LIMIT = httpx2.Timeout(QUIET_SECONDS, connect=CONNECT_SECONDS)  # in all; between two pieces there is one
LARGEST_ANSWER = 256 * 2**20  # bytes; streams may be longer


def open_client(kind: Callable[..., C], place: ServerAddress, *, timeout: float) -> C:
    """A client for one server, not connected yet. Raises SettingsError.

    Redirects are not followed: the key is for this server. Certificates are read only where they are needed.
    """
    try:
        return kind(
            base_url=place.url,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=False,
            verify=place.is_private,
            # A proxy that the environment names is for other machines than this one.
            trust_env=not place.is_here,
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        # Its words are left out: the address of a proxy may hold a password.
        raise SettingsError(
            "The server can't be asked with the proxy or the certificates that the environment names.",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them.",
        ) from error


class Body:
    """An answer as it comes in: in the time that it has from now on, and not larger than one may be."""

    def __init__(self, *, seconds: float | None, most: int = LARGEST_ANSWER) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes, /) -> None:
        """The next piece. Raises ReadTimeout, ServerError."""
        if self._end is not None and time.monotonic() > self._end:
            raise httpx2.ReadTimeout("")
        self._size += len(piece)
        if self._size > self._most:
            raise ServerError(
                f"The server answers with more than {self._most >> 20} MiB.",
                advice="Ask for less at once.",
            )
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """All that came."""
        return b"".join(self._pieces)


def lost_request_of(error: httpx2.TransportError) -> LostRequest:
    """What became of a request that got no answer. Raises InvalidInput for one that no server would get."""
    if isinstance(error, httpx2.TimeoutException):
        return LostRequest("", slow=True)
    told = " ".join(str(error).split())[:200].rstrip(".")
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        raise InvalidInput(f"This can't be sent: {told}.") from error
    return LostRequest(told)
