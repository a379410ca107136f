"""The failure of a task that was given up: the stored part of its error, and its single retry.

    state     a delivery gives up  retry                delete
    --------  -------------------  -------------------  ------------
    none      failed               NotFound             NotFound
    retrying  failed               StillRetried         StillRetried
    failed    failed               retried, its task    deleted
    retried   retried              retried              deleted
    deleted   deleted              Gone                 Gone

"retrying": the last error of a task that the queue delivers again. The failure of an event cannot be retried, since
only a write of its document causes an event.
"""

import traceback as tracebacks

from signalbox.core import user_code
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect, name_of
from signalbox.core.error_notes import LAST_ERROR, ErrorNote, ErrorText
from signalbox.core.failure_notices import FailureNotice
from signalbox.core.kit_names import CALL_OBJECT, FAILURE_NOTICE_TASK
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.critical_sections.requests import CALL_IDS, SectionRequest
from signalbox.semaphores.requests import WAIT_IDS, WaitRequest
from signalbox.tasks.limits import LIMITS
from signalbox.tasks.model.contexts import Context, OfLease, OfSection, Plain
from signalbox.tasks.model.failures import Failure, failure_path
from signalbox.tasks.problems import NotRepeatable

# --- the stored error ---


def text_of(error: BaseException) -> ErrorText:
    """Return the texts of an exception."""
    return _cut(user_code.described(error), "".join(tracebacks.format_exception(user_code.raised_by(error))))


def _cut(error: str, traceback: str) -> ErrorText:
    """Return the beginning of an error's line and the end of its traceback, cut to the size that a record can hold."""
    return ErrorText(
        _readable(error)[: CORE_LIMITS.error_letters_max], _readable(traceback)[-LIMITS.traceback_letters_max :]
    )


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def failure_of(delivered: Delivered[Context], problem: tuple[str, str], text: ErrorText, attempts: int) -> Failure:
    """Return the failure of a delivery; `problem` is the type and the detail of the problem."""
    kind, detail = problem
    what = delivered.operation, delivered.call, delivered.context, kind, _cut(detail, "").error
    return Failure(*what, text, attempts, delivered.trace)


def failure_notice(failure: Failure) -> tuple[Effect, ...]:
    """Return the task that notifies the function of a failure. There is none for the failure of such a task."""
    call = failure.call
    if call.task == FAILURE_NOTICE_TASK:
        return ()
    is_call = call.task == CALL_OBJECT
    what = call.payload["class_name"] if is_call else call.task, failure.id, failure.problem, failure.detail
    return FailureNotice("object" if is_call else "task", "failed", *what).tasks(call.function, failure.id)


# --- retry ---


def retry_wait(failure: Failure) -> tuple[str, WaitRequest] | None:
    """Return the semaphore and the wait for a new lease with which a retry begins, or None if the task had no lease.

    The id of the wait is derived, so a repeated retry is the same wait.
    """
    if not isinstance(failure.context, OfLease):
        return None
    granted = failure.context.granted
    id_ = WAIT_IDS.derived(name_of(failure_path(failure.id), "wait"))
    return granted.semaphore, WaitRequest(id_, failure.call, **granted.options())


def retry_section_call(failure: Failure) -> tuple[str, SectionRequest] | None:
    """Return the key and the call of the critical section that a retry makes, or None if there is none."""
    if not isinstance(failure.context, OfSection):
        return None
    grant, id_ = failure.context.grant, CALL_IDS.derived(name_of(failure_path(failure.id), "call"))
    return grant.key, SectionRequest.repeating(grant, failure.call, id_)


def retry_task(failure: Failure) -> Effect:
    """Return the task that runs a failed task again. A failure has only one such task: its name is derived."""
    path, name, call = f"/tasks/{failure.call.task}", name_of(failure_path(failure.id), "retry"), failure.call
    return Effect(name, call.queue, call.function, call.task, call.payload, path, context=failure.context.members)


def check_repeatable(failure: Failure) -> Failure:
    """Return the failure of a task. Raises `NotRepeatable` for that of an event, which only Firestore delivers."""
    if isinstance(failure.context, Plain) and failure.context.is_event:
        path = failure.call.payload["path"]
        raise NotRepeatable(f"Only a write causes an event: write {path} again, then delete this failure.", field="id")
    return failure


def explained(detail: str, note: ErrorNote | None) -> str:
    """Return the reason why a task was given up, with the task's last error if `note` is given."""
    return f"{detail}{LAST_ERROR}{note.error}" if note else detail
