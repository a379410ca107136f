"""Problems of documents."""

from signalbox.core.problems import BadKey, Problem


class KeyRequired(BadKey):
    title = "`key` is required"


class KeyMismatch(BadKey):
    title = "Key in body differs from key in URL"


class ReservedField(Problem):
    title = "Reserved field name"


class EditsACopy(Problem):
    status = 409
    title = "A copy cannot be edited; edit its source document"


class StaleCopy(Problem):
    status = 409
    title = "The copy is stale; read the document again"


class CannotWriteBack(Problem):
    status = 409
    title = "The edit of a copy cannot be written back"


class PreconditionFailed(Problem):
    status = 412
    title = "Precondition failed"


class DocumentDeleted(Problem):
    status = 410
    title = "The document was deleted"


class BadPrecondition(Problem):
    title = "Invalid If-Match or If-None-Match"


class BadTransaction(Problem):
    title = "Invalid transaction"


class DuplicateKey(Problem):
    status = 409
    title = "Duplicate key in one call"
