"""The paths of a semaphore's record, and of those of its waiters and releases."""

COLLECTION = "semaphores"


def path_of(name: str) -> str:
    return f"{COLLECTION}/{name}"


def waiter_path(name: str, id_: str) -> str:
    return f"{path_of(name)}/waiters/{id_}"


def release_path(name: str, lease_id: str) -> str:
    """Return the path of a release that was left for an admit run."""
    return f"{path_of(name)}/releases/{lease_id}"
