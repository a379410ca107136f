"""Translate Firestore's refusal of a query without its index into the kit's problem."""

from shared.core.operations.ports import Query
from shared.core.operations.query_validation import full_order
from shared.core.rules.indexes import Index, lacking
from shared.core.rules.problems import BadQuery, NeedsIndex, Unavailable


def needs(index: Index) -> NeedsIndex:
    """Return the problem that names the index to declare."""
    return NeedsIndex(f"Add to `indexes` of infra/catalogue.yaml and deploy: {index}", field="where")


def refused(query: Query, message: str) -> Exception:
    """Translate Firestore's own error for a query without its index."""
    if "currently building" in message:
        return Unavailable("An index that this query needs is still being built.", retry_after_seconds=30)
    index = lacking(query.collection, query.where, full_order(query))
    return needs(index) if index else BadQuery(f"Firestore has no index for this query: {message}")
