"""HTTP endpoints for the local stack: statistics of the queues, public keys and identity tokens.

GET /stats              {queue: {waiting, running, next_due_at, created, dispatched, done, dropped}}; the last four
                        since the start; the time in seconds since 1970
GET /queues             {queue: {tasks, running, oldest_seconds, per_minute, state}} as the console shows them
GET /oauth2/v3/certs    the keys as a JSON Web Key Set
GET /oauth2/v1/certs    the keys as PEM by key id

GET /computeMetadata/v1/instance/service-accounts/ACCOUNT/identity?audience=URL
                        an identity token of that account for that address; only with the header
                        ``Metadata-Flavor: Google``, which no web page can add

The keys are at the paths at which Google publishes its own, the tokens where its machines find theirs.
"""

import time
from dataclasses import asdict

from aiohttp import web

from signalbox_tools.local.cloud_tasks.local_queue import LocalQueue
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity
from signalbox_tools.local.cloud_tasks.protobuf_messages import RUNNING
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.loopback import programs_only


def queue_stats(queue: LocalQueue) -> dict[str, int | float | None]:
    """Return a queue's counters. An idle queue has 0 `waiting` tasks and 0 `running` deliveries."""
    queue_stats = {"waiting": queue.waiting, "running": queue.running, "next_due_at": queue.next_due_at}
    return queue_stats | asdict(queue.counts)


def queue_now(queue: LocalQueue, now: float) -> dict[str, object]:
    """Return the state of a queue. `oldest_seconds` is negative if the first task is due later."""
    due_at = queue.next_due_at
    return {
        "tasks": queue.waiting + queue.running,
        "running": queue.running,
        "oldest_seconds": None if due_at is None else round(now - due_at, 3),
        "per_minute": queue.ended_last_minute,
        "state": "running" if queue.message.state == RUNNING else "paused",
    }


def application(registry: QueueRegistry, identity: Identity) -> web.Application:
    async def stats(_: web.Request) -> web.Response:
        return web.json_response({queue.name: queue_stats(queue) for queue in registry})

    async def queues(_: web.Request) -> web.Response:
        now = registry.context.clock()
        return web.json_response({queue.name.rpartition("/")[2]: queue_now(queue, now) for queue in registry})

    async def jwks(_: web.Request) -> web.Response:
        return web.json_response(identity.jwks())

    async def certs(_: web.Request) -> web.Response:
        return web.json_response(identity.certs())

    async def identify(request: web.Request) -> web.Response:
        audience = request.query.get("audience")
        if request.headers.get("Metadata-Flavor") != "Google" or not audience:
            raise web.HTTPForbidden(text="send Metadata-Flavor: Google, and the audience")
        return web.Response(text=identity.token(request.match_info["account"], audience, time.time()))

    routes = [
        web.get("/stats", stats),
        web.get("/queues", queues),
        web.get("/oauth2/v3/certs", jwks),
        web.get("/oauth2/v1/certs", certs),
        web.get("/computeMetadata/v1/instance/service-accounts/{account}/identity", identify),
    ]
    app = web.Application(middlewares=[programs_only])
    app.add_routes(routes)
    return app
