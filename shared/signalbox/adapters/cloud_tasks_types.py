"""The types of Cloud Tasks' messages."""

from signalbox.adapters.google_apis import without_clients

with without_clients("google.cloud.tasks_v2"):
    from google.cloud.tasks_v2.types import cloudtasks as cloudtasks
    from google.cloud.tasks_v2.types import queue as queue
    from google.cloud.tasks_v2.types import target as target
    from google.cloud.tasks_v2.types import task as task
