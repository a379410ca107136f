"""The fake provider as a server on a Unix socket, to which Terraform attaches.

with GoogleProvider() as google:
    subprocess.run(["terraform", "plan"], env=google.environment())
"""

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Self

import grpc

from tests.infra.google_provider.protocol import provider_calls
from tests.infra.google_provider.service_delays import Delays
from tests.infra.google_provider.servicer import Cloud, Servicer
from tests.infra.state_server import StateServer

SCHEMA = Path(__file__).with_name("schema.json")
SOURCE = "registry.terraform.io/hashicorp/google"  # the address that the files name: nothing is fetched from it
UNBOUNDED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
THREADS = 16


class GoogleProvider:
    """A provider with a simulated cloud, which may have `delays`; enter it to serve. `states` are Terraform's."""

    def __init__(self, delays: Delays | None = None) -> None:
        self._servicer = Servicer(json.loads(SCHEMA.read_text("utf-8")))
        self._servicer.cloud.delays = delays
        self.states = StateServer()
        self._folder = tempfile.TemporaryDirectory(prefix="google-provider-")
        self._socket = f"{self._folder.name}/socket"
        self._server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=UNBOUNDED)
        self._server.add_generic_rpc_handlers((provider_calls(self._servicer), *_plugin_calls()))
        self._server.add_insecure_port(f"unix://{self._socket}")

    def __enter__(self) -> Self:
        self._server.start()
        self.states.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0)
        self.states.__exit__()
        self._folder.cleanup()

    @property
    def cloud(self) -> Cloud:
        """What was done so far, and what is there."""
        return self._servicer.cloud

    def environment(self) -> dict[str, str]:
        """Return the environment for a Terraform that uses this provider and no network."""
        attach = {
            "Protocol": "grpc",
            "ProtocolVersion": 6,
            "Pid": os.getpid(),
            "Test": True,
            "Addr": {"Network": "unix", "String": self._socket},
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        return inherited | {
            "TF_REATTACH_PROVIDERS": json.dumps({SOURCE: attach}),
            "TF_CLI_CONFIG_FILE": os.devnull,
            "TF_IN_AUTOMATION": "1",
            "TF_VAR_rights_seconds": "0",  # here a right is true at once
            "CHECKPOINT_DISABLE": "1",
            "GOGC": "400",  # Terraform collects garbage in a quarter of its time; this lets it use more memory instead
        }


def _plugin_calls() -> Iterator[Any]:
    """Serve the calls that Terraform makes to every plugin: shutdown, and its output."""
    raw: dict[str, Any] = {"request_deserializer": bytes, "response_serializer": bytes}
    end = grpc.unary_unary_rpc_method_handler(lambda request, context: b"", **raw)  # noqa: ARG005 - ends with its test
    output = grpc.unary_stream_rpc_method_handler(lambda request, context: iter(()), **raw)  # noqa: ARG005  grpc passes both by position
    yield grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": end})
    yield grpc.method_handlers_generic_handler("plugin.GRPCStdio", {"StreamStdio": output})
