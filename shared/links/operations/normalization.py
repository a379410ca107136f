"""Normalize a document: store what a put of its present content would have stored."""

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Decision
from shared.core.rules.problems import Problem
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import DocumentRead, Loaded
from shared.documents.operations.document_writes import document_write
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Content, Document, path_of


def normalize_or_report(ports: Ports, key: str, hops: int, *, by_another: bool = True) -> bool:
    """Normalize a document; log a permanent error, since a retry would not help. Return whether it is normalized."""
    try:
        normalize(ports, key, hops, by_another=by_another)
    except Problem as problem:
        report(ports, key, problem)
        return False
    return True


def report(ports: Ports, key: str, problem: Problem) -> None:
    """Log why a document cannot be normalized."""
    ports.log.error("document normalization rejected", document=key, reason=problem.detail)


def normalize(ports: Ports, key: str, hops: int = 0, *, by_another: bool = True) -> bool:
    """Embed the links of a document, as a put of its present content would; return whether anything was written.

    A document that was written `by_another` client, or looks so, counts as linked from here on: that client did not
    keep `linked`.
    """
    [found] = ports.store.read(path_of(key))
    content = documents.content_of(found.data)
    paths = link_inputs.input_paths(content) if content is not None else []

    def decide(read: Loaded) -> Decision[Writes, Content]:
        now = Document.from_record(read.own.data)
        if now is None or link_inputs.input_paths(now.content) != paths:
            return Decision((), {})  # deleted, or written again: that write's event is on its way
        embedded = read.embed(now.content, hops, refuse=False)
        linked = by_another or not now.stamp_matches or documents.counts_as_linked(now)
        if _is_stored(now, embedded, linked) and links.link_index_matches(read.own.data or {}, embedded):
            return Decision((), {})
        made = document_write(read.own, embedded, "put", linked=linked, hops=hops, header=read.header)
        return Decision(made.writes, embedded, made.effects)

    reading = DocumentRead(key, paths, lambda own: documents.content_of(own.data) or {}, hops, refuse=False)
    embedded, committed = perform(ports, reading, decide)
    report_failures(ports, key, embedded)
    return committed is not None


def _is_stored(document: Document, content: Content, linked: bool) -> bool:
    same = documents.digest(content) == documents.digest(document.content)
    return document.stamp_matches and same and linked == documents.counts_as_linked(document)


def report_failures(ports: Ports, key: str, content: Content) -> None:
    """Log where the output of a transform is not an object."""
    for field in links.failed_fields(content):
        ports.log.error("transform output is not an object", document=key, field=field)
