"""The errors of the API, with the status codes and, where known, the messages of Cloud Tasks."""

import grpc


class RpcError(Exception):
    """A call that ends with an error status."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid_argument(message: str) -> RpcError:
    return RpcError(grpc.StatusCode.INVALID_ARGUMENT, message)


def unimplemented(what: str) -> RpcError:
    """Return the error for a feature of Cloud Tasks that is not implemented here. No feature is ignored."""
    return RpcError(grpc.StatusCode.UNIMPLEMENTED, f"The local Cloud Tasks does not implement {what}.")


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
    """Return the error for a response that is lost although the call was carried out."""
    return RpcError(grpc.StatusCode.UNAVAILABLE, "The response was lost (an injected fault).")


def not_stored() -> RpcError:
    return RpcError(grpc.StatusCode.UNAVAILABLE, "The storage could not be written.")
