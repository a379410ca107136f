"""Restore a version: put what a document held then, as a new version."""

from shared.core.operations.ports import Ports
from shared.core.rules import keys
from shared.core.rules.problems import NotFound
from shared.documents.operations.documents import put
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition
from shared.documents.rules.requests import PutRequest
from shared.history.operations import versions
from shared.history.rules.references import Reference


def restore(ports: Ports, key: str, reference: Reference, precondition: Precondition = UNCONDITIONAL) -> StoredDocument:
    """Put the document that a version held; its links embed what their targets hold now.

    Raises `NotFound` for a version that is not there, or in which the document did not exist, and `PreconditionFailed`.
    """
    content = versions.read(ports, keys.check_key(key), reference).content
    if content is None:
        raise NotFound(f"Document {key!r} did not exist in version {reference}.", field="version")
    return put(ports, PutRequest.from_request(key, content, precondition), "restore")
