"""Bring a document into shape: make it what a put of its present content would have stored."""

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.problems import Problem
from shared.documents.operations import embedding
from shared.documents.operations.documents import embed
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Content, Document, path_of


def reshape_or_report(ports: Ports, key: str, hops: int, *, by_another: bool = True) -> bool:
    """Bring a document into shape; report one that cannot be, since trying again would not help. Tell whether it is."""
    try:
        reshape(ports, key, hops, by_another=by_another)
    except Problem as problem:
        ports.log.error("a document cannot be brought into shape", document=key, reason=problem.detail)
        return False
    return True


def reshape(ports: Ports, key: str, hops: int = 0, *, by_another: bool = True) -> None:
    """Embed what a document links to, as a put of its present content would. Unchanged, it is not written.

    If it is known to be written `by_another`, or looks so, it counts as linked from here on: whoever wrote it did not
    know of `linked`.
    """
    [found] = ports.store.read(path_of(key))
    content = documents.content_of(found.data)
    needed = embedding.needs(content) if content is not None else []

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Content]:
        now = documents.decode(read[0].data)
        if now is None or embedding.needs(now.content) != needed:
            return Decision((), {})  # deleted, or written again: that write's event is on its way
        shaped = links.shape(key, now.content, embedding.given(read[1:]), hops, refuse=False)
        linked = by_another or not now.in_shape or documents.counts_as_linked(now)
        if _settled(now, shaped, linked) and links.well_listed(read[0].data or {}, shaped):
            return Decision((), {})
        return Decision((embed(read[0], shaped, "put", linked=linked, hops=hops),), shaped)

    shaped, _ = perform(ports, [path_of(key), *needed], decide)
    report_failures(ports, key, shaped)


def _settled(document: Document, content: Content, linked: bool) -> bool:
    same = documents.digest(content) == documents.digest(document.content)
    return document.in_shape and same and linked == documents.counts_as_linked(document)


def report_failures(ports: Ports, key: str, content: Content) -> None:
    """Report where a transform makes no object of what it is given."""
    for field in links.failed_fields(content):
        ports.log.error("a transform makes no object", document=key, field=field)
