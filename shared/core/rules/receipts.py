"""Receipts: what was done under an id, or by a task that may be delivered again, for as long as it may be repeated.

Firestore deletes a receipt 32 days after `written_at`: Cloud Tasks delivers a task for up to 31 days.
"""

COLLECTION = "receipts"


def receipt_path(name: str) -> str:
    """Return the path of the receipt of an operation."""
    return f"{COLLECTION}/{name}"
