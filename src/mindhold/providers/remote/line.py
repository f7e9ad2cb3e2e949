"""One request to a service and what its refusal means. The key goes into a header and nowhere else."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from mindhold.providers.remote.address import host_of, is_loopback
from mindhold.providers.remote.patience import LONGEST_HOLD

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 128 * 1024 * 1024
LONGEST_WORDS = 200
HIDDEN = "(hidden)"
_CONNECT_SECONDS = 3.0
_DENIED = (401, 402, 403)
_PASSING = (408, 425, 429)
_SPENT = "insufficient_quota"


@dataclass(frozen=True, slots=True)
class Advice:
    """What a person can do, by what went wrong."""

    later: str  # it will be back
    address: str
    model: str
    call: str


@dataclass(frozen=True, slots=True)
class Remote:
    """A service: how people call it, where it is, and what opens it."""

    title: str
    address: str
    advice: Advice
    key: str = field(default="", repr=False)
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)  # besides the key
    largest_answer: int = LARGEST_ANSWER


class Fault(Exception):
    """What became of a request that failed: whether another may succeed, and when, and whether to ask at all."""

    def __init__(
        self,
        error: ModelError,
        *,
        passing: bool = False,
        after: float | None = None,
        holds: float | None = 0.0,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.passing = passing
        self.after = after
        self.holds = holds  # None: the fault is the request's, and says nothing about the next


class Line:
    """The connections to one service, opened at first use."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._client: httpx2.AsyncClient | None = None
        self._opening = threading.Lock()

    def load(self) -> None:
        """The client library and its certificates, which take their time; nothing is asked. Blocks. Raises ModelBroken."""
        import httpx2

        address = self._remote.address
        with self._opening:
            if self._client is None:
                try:
                    self._client = httpx2.AsyncClient(
                        # A proxy that the environment names is for other machines than this one.
                        trust_env=not is_loopback(host_of(address)),
                        # No certificates are read for an address without TLS; redirects are not followed.
                        verify=address.startswith("https:"),
                    )
                except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
                    raise self._unusable(error) from error

    async def post(self, body: Mapping[str, Any], *, patience: float) -> bytes:
        """The answer's content. Raises Fault; within the patience."""
        try:
            client = await self._opened()
        except ModelBroken as error:
            raise Fault(error, holds=LONGEST_HOLD) from error
        import httpx2  # loaded by a thread just now

        try:
            async with asyncio.timeout(patience):
                timeout = httpx2.Timeout(None, connect=min(_CONNECT_SECONDS, patience))
                return await self._post(client, body, timeout=timeout)
        except TimeoutError as error:
            raise self.away(f"didn't answer within {patience:.0f} seconds", lost=True) from error
        except httpx2.TimeoutException as error:
            raise self.away("can't be reached in time") from error
        except httpx2.HTTPError as error:
            told = f"can't be reached: {self.words(str(error)) or type(error).__name__}"
            raise self.away(told, lost=not isinstance(error, httpx2.ConnectError)) from error
        except httpx2.InvalidURL as error:
            title, advice = self._remote.title, self._remote.advice.address
            wrong = ModelBroken(f"{title} can't be asked: its address is none.", advice=advice)
            raise Fault(wrong, holds=LONGEST_HOLD) from error

    async def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def away(self, what: str, *, after: float | None = None, lost: bool = False) -> Fault:
        """It will be back. `lost`: it may be at work on what it was sent."""
        error = ModelAway(f"{self._remote.title} {what}.", advice=self._remote.advice.later)
        error.lost = lost
        return Fault(error, passing=True, after=after)

    def words(self, text: str) -> str:
        """Theirs, on one line, bounded, and without the key."""
        return plain_words(text, (self._remote.key,))

    async def _post(
        self, client: httpx2.AsyncClient, body: Mapping[str, Any], *, timeout: httpx2.Timeout
    ) -> bytes:
        remote = self._remote
        headers = dict(remote.headers)
        if remote.key:
            headers[remote.key_header] = remote.key_scheme + remote.key
        async with client.stream(
            "POST", remote.address, json=body, headers=headers, timeout=timeout
        ) as response:
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > remote.largest_answer:
                    raise Fault(ModelBroken(f"{remote.title} answers without end."))
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.headers, bytes(content), str(body["model"]))
        return bytes(content)

    async def _opened(self) -> httpx2.AsyncClient:
        while self._client is None:
            await asyncio.to_thread(self.load)
        return self._client

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes, model: str) -> Fault:
        title, advice = self._remote.title, self._remote.advice
        code, words = complaint(content)
        if status in _DENIED or code == _SPENT:
            # Its own words are left out: they repeat a part of the key.
            what = "says that the account is spent" if code == _SPENT or status == 402 else "refuses the key"
            error: ModelError = ModelDenied(
                f"{title} {what} (HTTP {status}).",
                advice="Correct the key or the account; a new key is read at the next start.",
            )
            return Fault(error, holds=LONGEST_HOLD)
        if status in _PASSING or status >= 500:
            after = retry_after(headers, now=datetime.now(UTC))
            what = "takes no more calls for now" if status == 429 else f"fails (HTTP {status})"
            return self.away(what, after=after)
        if status == 404:
            where = host_of(self._remote.address)
            error = ModelMissing(f"{title} has no model {model!r} at {where}.", advice=advice.model)
            return Fault(error, holds=LONGEST_HOLD)
        if 300 <= status < 400:
            error = ModelBroken(f"{title} sends callers elsewhere (HTTP {status}).", advice=advice.address)
            return Fault(error, holds=LONGEST_HOLD)
        told = f": {said}" if (said := self.words(words)) else ""
        error = ModelBroken(f"{title} refuses a call (HTTP {status}){told}.", advice=advice.call)
        return Fault(error, holds=None)

    def _unusable(self, error: Exception) -> ModelBroken:
        """A client can't be made. Words about a proxy's address are left out: it may hold a password."""
        told = str(error) if isinstance(error, ImportError) else getattr(error, "strerror", None)
        return ModelBroken(
            f"{self._remote.title} can't be asked with the proxy or the certificates that the environment names "
            f"({self.words(told or type(error).__name__)}).",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them for Mindhold.",
        )


def plain_words(text: str, secrets: tuple[str, ...]) -> str:
    """Somebody else's words on one line, bounded, and without any of the secrets."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN) if secret else text
    return " ".join(text.split())[:LONGEST_WORDS].rstrip(".")


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds that the service asks to be left alone; None when it doesn't say."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        given = headers.get(name, "").strip()
        try:
            seconds = float(given) / scale
        except ValueError:
            seconds = _seconds_until(given, now)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def document_of(content: bytes | str) -> Any:
    """What JSON says. Raises ValueError."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def complaint(content: bytes) -> tuple[str, str]:
    """The code and the words of an error, in whichever of the usual shapes."""
    try:
        document = document_of(content)
    except ValueError:
        return "", ""
    inner = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        return "", inner if isinstance(inner, str) else ""
    words = inner.get("message") or inner.get("detail") or ""
    return str(inner.get("code") or inner.get("type") or ""), words if isinstance(words, str) else ""


def _seconds_until(given: str, now: datetime) -> float:
    from email.utils import parsedate_to_datetime  # a tenth of a start, for what is rarely sent

    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
