"""An assistant's whole life on a machine without a network: run as a process of its own by test_no_network.

It leaves the network first, so nothing that it starts has any interface but loopback. Nothing is configured but the
store, where that is given.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_clients import ADDRESS, NEWEST, WAIT, called, command, negotiated, over_http

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SET_FLAGS, UP = 0x8914, 0x1
AWAY = ("192.0.2.1", 9)  # reserved for documents: nobody has it


def leave_network() -> None:
    """No interface but loopback, for this process and all that it starts. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NETWORK if user == 0 else NEW_USER | NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace can be had")
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh", b"lo", UP))


def is_alone() -> bool:
    """Whether nothing outside can be reached from here."""
    with socket.socket() as probe:
        probe.settimeout(2)
        try:
            probe.connect(AWAY)
        except OSError:
            return [name for _, name in socket.if_nameindex()] == ["lo"]
    return False


async def live(session: ClientSession) -> None:
    """Store, find, part by scope and time, back up, delete, restore, tidy, export: every tool of the contract."""
    kept = await called(session, "store_memory", content="The heron nests at the weir.", tags=["birds"])
    await called(session, "create_memory_scope", name="Harbour", description="Cranes and ropes")
    await called(session, "store_memory", content="The crane lifts nine tons.", scope="Harbour")
    listed = await called(session, "list_memory_scopes")
    assert {"Global", "Harbour"} <= {one["name"] for one in listed["scopes"]}
    assert await _finds(session, "where does the heron nest?", "heron")
    assert not await _finds(session, "what does the crane lift?", "crane")
    assert await _finds(session, "what does the crane lift?", "crane", filter={"scope": "ALL"})
    for tool, given in (
        ("search_by_tag", {"tag": "birds"}),
        ("search_by_scope", {"scope": "Global"}),
        ("recall_memory_by_time", {"time_query": "today"}),
    ):
        assert "heron" in str(await called(session, tool, **given)), tool
    assert (await called(session, "get_memory_stats"))["stats"]["total_memories"] >= 2
    backup = await called(session, "backup_memory")
    target = {"memory_id": kept["memory_id"]}
    await called(session, "delete_memory", target=target, forget_mode="hard")
    assert not await _finds(session, "where does the heron nest?", "heron")
    await called(session, "restore_memory", backup_file=backup["backup_file"])
    assert await _finds(session, "where does the heron nest?", "heron")
    await called(session, "optimize_memory")
    exported = await called(session, "export_memory")
    assert exported["status"] == "OK"
    await called(session, "forget_memory", target={"tag": "birds"})
    assert not await _finds(session, "where does the heron nest?", "heron")


async def _finds(session: ClientSession, query: str, word: str, **more: Any) -> bool:
    return word in str((await called(session, "retrieve_memory", query=query, **more))["results"])


async def by_stdio(environment: dict[str, str]) -> None:
    program, *arguments = command("mcp", "--toolsets", "assistant")
    params = StdioServerParameters(command=program, args=arguments, env=environment)
    async with stdio_client(params) as streams, ClientSession(*streams) as session:
        await live(await negotiated(session, NEWEST))


async def by_http(environment: dict[str, str]) -> None:
    with serving(environment) as url:
        async with over_http(url) as session:
            await live(session)


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[str]:
    """The address of a server that is there meanwhile."""
    process = subprocess.Popen(
        command("serve", "--port", "0", "--toolsets", "assistant"),
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    try:
        found = next(filter(None, map(ADDRESS.search, process.stderr)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.wait(WAIT)


def main(home: str, store: str) -> None:
    leave_network()
    assert is_alone(), "there is a network"
    with suppress(FileNotFoundError):  # the look from here was no part of the session
        Path(os.environ["ADDRESSES_TOLD"]).unlink()
    kept = {name: value for name, value in os.environ.items() if not re.match("MINDHOLD_|XDG_", name)}
    environment = {**kept, "HOME": home, "PYTHONUTF8": "1"}
    if store != "local":
        environment["MINDHOLD_STORE_MODE"] = store
    for door in (by_stdio, by_http):
        asyncio.run(door(environment | {"HOME": str(Path(home) / door.__name__)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
