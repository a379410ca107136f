"""The types of Firestore's messages."""

from signalbox.adapters.google_apis import without_clients

with without_clients("google.cloud.firestore_v1"):
    from google.cloud.firestore_v1.types import firestore as firestore
    from google.cloud.firestore_v1.types import query as query
    from google.cloud.firestore_v1.types import write as write
