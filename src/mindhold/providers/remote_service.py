"""Requests to a remote service: its address, timeouts, retries, and what a refusal means."""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing, SettingsError

if TYPE_CHECKING:
    import httpx2


MINUTE = 60.0
FIRST_HOLD = 5.0
LONGEST_HOLD = 60.0
LONGEST_BY_REQUEST = 600.0  # however long a service asks to be left alone
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Time, injected so that tests need no sleep. `jitter` is a number from 0 to 1."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


def pause(attempt: int, jitter: float) -> float:
    """Seconds before the next attempt: doubled each time, and never the same for two callers."""
    longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1))
    return longest * (0.5 + jitter / 2)


def unasked(error: ModelError) -> ModelError:
    """The same again, of a call that was never sent."""
    again = type(error)(error.message, advice=error.advice)
    again.unasked = True
    return again


class Circuit:
    """Open after a failure: calls then fail at once, until one of them may try again."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._error: ModelError | None = None
        self._until = 0.0
        self._hold = 0.0
        self._trying = False

    def enter(self) -> bool:
        """Whether this call is the trial of an open circuit. Raises the error that opened it, while it is held."""
        if self._error is None:
            return False
        if self._trying or self._timing.now() < self._until:
            raise unasked(self._error)
        self._trying = True
        return True

    def opened(self, error: ModelError, *, at_least: float = 0.0) -> None:
        """Leave the service alone; longer each time, up to a minute, or as long as it asked for."""
        if self._error is None or self._trying:  # of many calls that fail at once, the first counts
            self._hold = min(LONGEST_HOLD, max(FIRST_HOLD, self._hold * 2))
        self._error = error
        hold = max(self._hold, min(at_least, LONGEST_BY_REQUEST))
        self._until = max(self._until, self._timing.now() + hold)

    def closed(self) -> None:
        """All is well again."""
        self._error, self._hold = None, 0.0

    def left(self) -> None:
        """The trial is over, however it ended."""
        self._trying = False


class Pace:
    """At most so many requests and tokens a minute; 0 is no limit. What wasn't used is saved for at most a minute.

    `section` is of the settings that say how many.
    """

    def __init__(self, requests: int, tokens: int, timing: Timing, *, section: str) -> None:
        self._timing = timing
        self._section = section
        self._rates = (requests / MINUTE, tokens / MINUTE)
        self._saved = [float(requests), float(tokens)]
        self._seen = timing.now()

    async def take(self, tokens: int, *, patience: float) -> None:
        """One request with so many tokens, when it is due. Raises ModelAway if that is beyond the patience."""
        now = self._timing.now()
        passed, self._seen = now - self._seen, now
        due = 0.0
        for place, (rate, cost) in enumerate(zip(self._rates, (1.0, float(tokens)), strict=True)):
            if not rate:
                continue
            self._saved[place] = min(rate * MINUTE, self._saved[place] + passed * rate)
            # What is larger than a whole minute's share goes alone, once the minute is saved up.
            short = min(cost, rate * MINUTE) - self._saved[place]
            due = max(due, short / rate)
        if due >= patience:
            raise ModelAway(
                f"The next call of the service is due in {due:.0f} seconds by the limits set here.",
                advice=f"Raise {self._section}.requests_per_minute or {self._section}.tokens_per_minute, or wait.",
            )
        # Taken before the wait, so that whoever comes meanwhile queues behind.
        self._saved[0] -= 1.0
        self._saved[1] -= tokens
        if due > 0:
            await self._timing.sleep(due)


def endpoint(base_url: str, *, plain_http: bool, path: str, section: str) -> str:
    """The address that texts are sent to; `section` is of the settings that name it. Raises SettingsError."""
    setting = f"{section}.base_url"
    if not base_url.strip().isprintable() or " " in base_url.strip():
        raise _wrong(setting, "holds characters that no address has", advice="Copy it anew.")
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(setting, "is no address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong(setting, "is no address", advice="Give one such as http://localhost:11434/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _wrong(
            setting,
            "holds more than a place",
            advice=f"Give the address alone; a key has a setting of its own, such as {section}.openai_key.",
        )
    if parts.scheme == "http" and not is_loopback(host) and not plain_http:
        raise _wrong(
            setting,
            f"leads to {host} by plain http, where others can read every text and the key",
            advice=f"Use https://, or say {section}.plain_http = true for a network that you trust.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(path)}{path}"


def host_of(address: str) -> str:
    """For people to read."""
    return urlsplit(address).hostname or address


def is_loopback(host: str) -> bool:
    """Whether it is this machine by name or by number."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(setting: str, what: str, *, advice: str = "Correct it.") -> SettingsError:
    return SettingsError(f"{setting} {what}.", advice=advice)


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
class RemoteService:
    """A service: how people call it, where it is, and what opens it."""

    title: str
    address: str
    advice: Advice
    key: str = field(default="", repr=False)
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)  # besides the key
    largest_answer: int = LARGEST_ANSWER


class ServiceFault(Exception):
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


class ServiceConnection:
    """The connections to one service, opened at first use."""

    def __init__(self, remote: RemoteService) -> None:
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
            raise ServiceFault(error, holds=LONGEST_HOLD) from error
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
            raise ServiceFault(wrong, holds=LONGEST_HOLD) from error

    async def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def away(self, what: str, *, after: float | None = None, lost: bool = False) -> ServiceFault:
        """It will be back. `lost`: it may be at work on what it was sent."""
        error = ModelAway(f"{self._remote.title} {what}.", advice=self._remote.advice.later)
        error.lost = lost
        return ServiceFault(error, passing=True, after=after)

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
                    raise ServiceFault(ModelBroken(f"{remote.title} answers without end."))
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.headers, bytes(content), str(body["model"]))
        return bytes(content)

    async def _opened(self) -> httpx2.AsyncClient:
        while self._client is None:
            await asyncio.to_thread(self.load)
        return self._client

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes, model: str) -> ServiceFault:
        title, advice = self._remote.title, self._remote.advice
        code, words = complaint(content)
        if status in _DENIED or code == _SPENT:
            # Its own words are left out: they repeat a part of the key.
            what = "says that the account is spent" if code == _SPENT or status == 402 else "refuses the key"
            error: ModelError = ModelDenied(
                f"{title} {what} (HTTP {status}).",
                advice="Correct the key or the account; a new key is read at the next start.",
            )
            return ServiceFault(error, holds=LONGEST_HOLD)
        if status in _PASSING or status >= 500:
            after = retry_after(headers, now=datetime.now(UTC))
            what = "takes no more calls for now" if status == 429 else f"fails (HTTP {status})"
            return self.away(what, after=after)
        if status == 404:
            where = host_of(self._remote.address)
            error = ModelMissing(f"{title} has no model {model!r} at {where}.", advice=advice.model)
            return ServiceFault(error, holds=LONGEST_HOLD)
        if 300 <= status < 400:
            error = ModelBroken(f"{title} sends callers elsewhere (HTTP {status}).", advice=advice.address)
            return ServiceFault(error, holds=LONGEST_HOLD)
        told = f": {said}" if (said := self.words(words)) else ""
        error = ModelBroken(f"{title} refuses a call (HTTP {status}){told}.", advice=advice.call)
        return ServiceFault(error, holds=None)

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
