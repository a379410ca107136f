"""What the service says no to, with the status codes and the words of the real one.

The words are those that Cloud Tasks is known to answer with, where they are known; nobody should parse them.
"""

import grpc


class RpcError(Exception):
    """A call that ends with a status instead of an answer."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid_argument(message: str) -> RpcError:
    return RpcError(grpc.StatusCode.INVALID_ARGUMENT, message)


def unimplemented(what: str) -> RpcError:
    """Refuse a feature of the real service that this stand-in lacks, rather than ignore it."""
    return RpcError(grpc.StatusCode.UNIMPLEMENTED, f"The local Cloud Tasks does not do this: {what}.")


def queue_not_found() -> RpcError:
    return RpcError(
        grpc.StatusCode.NOT_FOUND,
        "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize.",
    )


def queue_exists() -> RpcError:
    return RpcError(grpc.StatusCode.ALREADY_EXISTS, "Queue already exists")


def queue_name_used() -> RpcError:
    return RpcError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "The queue cannot be created because a queue with this name existed too recently.",
    )


def task_not_found() -> RpcError:
    return RpcError(grpc.StatusCode.NOT_FOUND, "Requested entity was not found.")


def task_gone() -> RpcError:
    return RpcError(
        grpc.StatusCode.NOT_FOUND,
        "The task no longer exists, though a task with this name existed recently. "
        "The task either successfully completed or was deleted.",
    )


def task_exists() -> RpcError:
    return RpcError(grpc.StatusCode.ALREADY_EXISTS, "Requested entity already exists")


def task_name_used() -> RpcError:
    return RpcError(
        grpc.StatusCode.ALREADY_EXISTS,
        "The task cannot be created because a task with this name existed too recently.",
    )


def response_lost() -> RpcError:
    """Stand for an answer that did not arrive: what was asked for has happened."""
    return RpcError(grpc.StatusCode.UNAVAILABLE, "The answer was lost (a fault on demand).")


def not_stored() -> RpcError:
    return RpcError(grpc.StatusCode.UNAVAILABLE, "The storage could not be written.")
