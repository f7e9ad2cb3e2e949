"""What others change, heard; what is changed here, told.

One connection listens and tells, in a thread of its own. Telling is not part of the writing transactions: those would
wait for each other, for the server lets one who tells commit at a time. Several changes are told together.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from mindhold.stores.postgres.session import Session

CHANNEL = "mindhold_changes"

_TOGETHER_SECONDS = 0.05
_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)

# Say that records were changed.
TELL = f"SELECT pg_notify('{CHANNEL}', %s)"


class Notices:
    """Calls `heard` with how many records others have changed, from its own thread."""

    def __init__(self, session: Session, *, heard: Callable[[int], None]) -> None:
        self._session = session
        self._heard = heard
        self._name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._untold = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self.listening = threading.Event()  # whether nothing is missed now

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._bell = socket.socketpair()
            self._bell[1].setblocking(False)
            self._thread = threading.Thread(target=self._run, name="mindhold-notices", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """What was not told yet is told, if the server is there."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            self._ring()
            await asyncio.to_thread(thread.join)
            for end in self._bell or ():
                end.close()
            self._bell = None

    def tell(self, records: int) -> None:
        """Soon, with what else there is to tell."""
        with self._lock:
            first, self._untold = not self._untold, self._untold + records
        if first:
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(OSError):
                self._bell[1].send(b"!")

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                with self._session.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    failures = 0
                    self.listening.set()
                    self._heard(0)
                    self._attend(connection)
            except (psycopg.Error, OSError):
                self.listening.clear()
                self._stopping.wait(_AGAIN_SECONDS[min(failures, len(_AGAIN_SECONDS) - 1)])
                failures += 1
            finally:
                self.listening.clear()

    def _attend(self, connection: psycopg.Connection[Any]) -> None:
        assert self._bell is not None
        bell = self._bell[0]
        with selectors.DefaultSelector() as waiting:  # select() itself knows the first 1,024 files only
            waiting.register(connection.fileno(), selectors.EVENT_READ)
            waiting.register(bell, selectors.EVENT_READ)
            while not self._stopping.is_set():
                ready = [key.fileobj for key, _ in waiting.select()]
                for notice in connection.notifies(timeout=0):
                    self._hear(notice.payload)
                if bell in ready:
                    bell.recv(1024)
                    self._stopping.wait(_TOGETHER_SECONDS)
                    self._tell(connection)
        self._tell(connection)

    def _tell(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            records = self._untold
        if records:
            connection.execute(TELL, (json.dumps({"who": self._name, "records": records}),))
        with self._lock:
            self._untold -= records
            more = self._untold > 0
        if more:
            self._ring()

    def _hear(self, payload: str) -> None:
        try:
            told = json.loads(payload)
            who, records = str(told["who"]), int(told["records"])
        except (ValueError, KeyError, TypeError):
            return  # somebody else's use of the channel
        if who != self._name:
            self._heard(records)
