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
QUIET_SECONDS = 60.0  # longest silence of a stream; the server sends a sign of life every 15 seconds
NO_LIMIT = httpx2.Timeout(
    QUIET_SECONDS, connect=CONNECT_SECONDS
)  # no total limit, only one between two pieces
LARGEST_ANSWER = 256 * 2**20  # bytes; streams may be longer


def open_client(kind: Callable[..., C], address: ServerAddress, *, timeout: float) -> C:
    """Create an HTTP client for one server, not connected yet. Raises SettingsError.

    Redirects are not followed, because the key is for this server. Certificates are loaded only if needed.
    """
    try:
        return kind(
            base_url=address.url,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=False,
            verify=address.is_private,
            # A proxy of the environment doesn't apply to this machine.
            trust_env=not address.is_here,
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        # The error's text is left out: a proxy's URL may hold a password.
        raise SettingsError(
            "The server can't be asked with the proxy or the certificates that the environment names.",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them.",
        ) from error


class Body:
    """Collects the body of an answer within limits of time and size."""

    def __init__(self, *, seconds: float | None, most: int = LARGEST_ANSWER) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes, /) -> None:
        """Add the next piece. Raises ReadTimeout, ServerError."""
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
        """Return the whole body."""
        return b"".join(self._pieces)


def lost_request_of(error: httpx2.TransportError) -> LostRequest:
    """Describe a request that got no answer. Raises InvalidInput for one that can't be sent."""
    if isinstance(error, httpx2.TimeoutException):
        return LostRequest("", slow=True)
    reason = " ".join(str(error).split())[:200].rstrip(".")
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        raise InvalidInput(f"This can't be sent: {reason}.") from error
    return LostRequest(reason)
