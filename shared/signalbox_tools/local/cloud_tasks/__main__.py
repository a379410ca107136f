"""Run the local Cloud Tasks.

    python -m signalbox_tools.local.cloud_tasks --port P --database FILE --queues JSON_OR_FILE

Injected faults come from `--chaos` or, without it, from CHAOS. Prints `ready` when it serves. SIGTERM ends it at once:
deliveries in progress are repeated after the next start.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import web

from signalbox.adapters.sqlite.file import SYNCHRONOUS_LEVELS, Synchronous
from signalbox_tools.local.cloud_tasks.api_errors import RpcError
from signalbox_tools.local.cloud_tasks.api_methods import TaskMethods
from signalbox_tools.local.cloud_tasks.grpc_server import methods_of, serve
from signalbox_tools.local.cloud_tasks.http_delivery import Dispatcher
from signalbox_tools.local.cloud_tasks.http_endpoints import application
from signalbox_tools.local.cloud_tasks.movable_clock import MovableClock
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message
from signalbox_tools.local.cloud_tasks.queue_configuration import read_queues
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.cloud_tasks.queue_rules import Tombstones
from signalbox_tools.local.cloud_tasks.rest_api import RestApi
from signalbox_tools.local.cloud_tasks.shared_by_queues import QueueContext
from signalbox_tools.local.cloud_tasks.sqlite_storage import SeparateFile, StoreFile, TaskStorage
from signalbox_tools.local.cloud_tasks.task_creation import creating
from signalbox_tools.local.function_processes import FunctionProcesses, listen
from signalbox_tools.local.injected_faults import Chaos, parse

HOUSEKEEPING_SECONDS = 60
PRIVATE_KEY = "oidc private key"


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cloud_tasks", description="A local, durable Cloud Tasks emulator.")
    parser.add_argument("--port", type=int, required=True, help="gRPC port on 127.0.0.1")
    parser.add_argument("--database", type=Path, required=True, help="SQLite file; created if missing")
    parser.add_argument(
        "--store", choices=SYNCHRONOUS_LEVELS, help="the file is that of a SQLite store with this durability"
    )
    parser.add_argument("--queues", type=_queues, default=[], help="JSON, or a file of it: name to settings")
    parser.add_argument("--keys-port", type=int, help="HTTP port of /stats and of the public keys")
    parser.add_argument("--functions-port", type=int, help="port for the processes of the functions at --functions-url")
    parser.add_argument("--functions-url", default="", help="beginning of the addresses of these functions")
    parser.add_argument("--chaos", type=_chaos, default=os.environ.get("CHAOS", ""), help="twice=0.1,late=0.1,…")
    parser.add_argument(
        "--tombstone-seconds", type=float, default=3600.0, help="how long a finished task's name stays reserved"
    )
    parser.set_defaults(rest_port=0, targets={})
    return parser.parse_args(argv)


def _queues(text: str) -> list[Message]:
    try:
        return read_queues(text)
    except (ValueError, TypeError, OSError, RpcError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _chaos(text: str) -> Chaos:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def identity_from(storage: TaskStorage) -> Identity:
    """Return the stored identity; generate it at the first start."""
    private_pem = storage.secret(PRIVATE_KEY)
    if private_pem is None:
        private_pem = new_private_key()
        storage.keep_secret(PRIVATE_KEY, private_pem)
    return Identity(private_pem)


def _say_ready() -> None:
    print("ready", flush=True)


async def run(options: argparse.Namespace, ready: Callable[[], None] = _say_ready) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called once it serves."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as closing:
        registry = await _open(options, closing)
        ready()
        await _housekeeping(registry, stopping)


async def _open(options: argparse.Namespace, closing: AsyncExitStack) -> QueueRegistry:
    """Start everything; `closing` stops it in reverse order."""
    storage = TaskStorage(_file(options.database, options.store))
    clock = MovableClock(storage.ahead_seconds())
    closing.push_async_callback(storage.close)
    identity = identity_from(storage)
    processes = FunctionProcesses()
    dispatcher = await closing.enter_async_context(Dispatcher(identity, processes, options.functions_url))
    registry = QueueRegistry(
        QueueContext(
            storage=storage,
            deliver=dispatcher.deliver,
            tombstones=Tombstones(),
            clock=clock,
            chaos=options.chaos,
            tombstone_seconds=options.tombstone_seconds,
            targets={name: url for name, url in options.targets.items() if url},
        )
    )
    registry.restore()
    await registry.configure(options.queues)
    closing.callback(registry.stop)
    methods, operations = methods_of(registry)
    server = await serve(methods, operations, options.port)
    closing.push_async_callback(server.stop, None)
    if options.functions_port:
        listening = await listen(processes, options.functions_port, creating(TaskMethods(registry).create))
        closing.callback(listening.close)
    if options.keys_port:
        await serve_http(application(registry, identity), options.keys_port, closing)
    if options.rest_port:
        await registry.ensure(options.targets)
        await serve_http(RestApi(registry, methods, clock, identity).application(), options.rest_port, closing)
    registry.begin()
    return registry


def _file(path: Path, synchronous: Synchronous | None) -> SeparateFile | StoreFile:
    return StoreFile(path, synchronous) if synchronous else SeparateFile(path)


async def serve_http(app: web.Application, port: int, closing: AsyncExitStack) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    closing.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", port).start()


async def _housekeeping(registry: QueueRegistry, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        registry.expire()
        try:
            await asyncio.wait_for(stopping.wait(), HOUSEKEEPING_SECONDS)
        except TimeoutError:
            continue


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    asyncio.run(run(arguments(sys.argv[1:])))


if __name__ == "__main__":
    main()
