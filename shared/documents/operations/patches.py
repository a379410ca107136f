"""Patch a document: read it, merge, embed the links of the result, and commit under the guard of that read.

The links of the merged document are known only after the read. So the first read takes the document and the inputs of
the patch's own links. Only if the merged document has other links, a second read takes their inputs too, again at one
instant with the document. Every merge embeds all links, so none is forgotten and no copy is older than the merge.
"""

from collections.abc import Sequence

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import DocumentRead, Loaded
from shared.documents.operations.document_writes import put_write
from shared.documents.operations.stored_documents import StoredDocument, check_precondition
from shared.documents.operations.write_backs import write_back
from shared.documents.rules import documents, patches
from shared.documents.rules.documents import Content
from shared.documents.rules.requests import PatchRequest


def patch(ports: Ports, request: PatchRequest) -> StoredDocument:
    """Merge JSON into a document, or create it. Raises a `Problem` for what cannot be merged or stored."""
    if request.write_back:
        return write_back(ports, request)
    needed = link_inputs.input_paths(request.patch)
    for _ in range(LIMITS.rounds_max):
        stored, needed = _merge(ports, request, needed)
        if stored is not None:
            return stored
    raise Unavailable(f"the links of {request.key} are changed by many clients at once")


def _merge(ports: Ports, request: PatchRequest, extra_paths: Sequence[str]) -> tuple[StoredDocument | None, list[str]]:
    """Merge, if all inputs of the merged document's links are among `extra_paths`; return the inputs it needs."""

    def merged(own: Snapshot) -> Content:
        return patches.patched(documents.content_of(own.data) or {}, request.patch, request.null)

    def decide(read: Loaded) -> Decision[Writes, tuple[StoredDocument | None, list[str]]]:
        check_precondition(request.precondition, read.own)
        content = merged(read.own)
        needed = link_inputs.input_paths(content)
        if read.embedded is None and not set(needed) <= set(extra_paths):
            return Decision((), (None, needed))
        made = put_write(read.own, read.embed(content))
        return Decision((made.write,), (made.stored, needed), made.effects)

    return perform(ports, DocumentRead(request.key, extra_paths, merged), decide)[0]
