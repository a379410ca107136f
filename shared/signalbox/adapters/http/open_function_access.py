"""Access to the flows and objects of an open function, and to the tasks that its requests name.

The platform admits every caller of an open function. So the routes of its flows and objects exist only for the names
in `exposes` of its catalogue entry, and a rule in its code decides each request. Requests cannot name a task to run
later (`on_complete`, `continuation`): the tasks of every private function would be open to all callers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from signalbox.adapters.deployed_catalogue import check_deployed, check_deployed_units
from signalbox.adapters.http.routes import Request
from signalbox.adapters.settings import settings
from signalbox.core import user_code
from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import NotFound, PermissionDenied


@dataclass(frozen=True, slots=True)
class Access:
    """A request to a flow or to an object of an open function, which a rule permits or not.

    - `name`: the name of the flow or of the class.
    - `action`: of flows ``list``, ``start``, ``fork``, ``get``, ``log``, ``query``, ``event``, ``update``,
      ``get_update``, ``cancel``, ``terminate``, ``suspend``, ``resume``, ``retry``, ``delete`` or ``act_on_all``; of
      objects ``list``, ``get``, ``call``, ``get_call`` or ``delete``.
    - `id`: the run's id or the object's key; empty for ``list``, ``act_on_all``, and a ``start`` that draws the id.
    - `member`: the name of the event, the update, the query or the method, or the id of the call for ``get_call`` and
      of the update for ``get_update``; empty for other actions and for a list of queries.

    A fork asks twice: for ``fork`` with the id of the run whose log it continues, and for ``start`` with the new id. An
    event or an update with `start` also asks for ``start``; if it may replace a run, also for ``delete``, and for
    ``terminate`` if that may not have ended.
    """

    request: Request
    action: str
    name: str
    id: str = ""
    member: str = ""


Rule = Callable[[Access], Any]


class AccessRules:
    """A function's access rules, by the name of the flow or class."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._rules: dict[str, Rule] = {}

    def add(self, name: str, rule: Rule) -> None:
        """Add a rule. Raises `ValueError` for a second rule of one name."""
        if self._rules.setdefault(name, rule) is not rule:
            raise ValueError(f"{self._function} has two rules for {name}")

    def check(self, access: Access) -> None:
        """Check a request. A private function permits all requests.

        Raises `NotFound` if the name is not exposed, `PermissionDenied` if the rule does not return True, and the
        errors of the rule.
        """
        exposed = settings().open_functions.get(self._function)
        if exposed is None:
            return
        rule = self._rules.get(access.name)
        if rule is None or access.name not in exposed:
            raise NotFound("This function is open: its flows and objects have addresses only if `exposes` names them.")
        if user_code.run(partial(rule, access)) is not True:
            raise PermissionDenied(f"You may not {access.action.replace('_', ' ')} here.")


def check_calls(request: Request, **calls: Call | None) -> None:
    """Check the calls of tasks in a request, passed by the names of their fields (empty for the whole body).

    Raises `PermissionDenied` for any call if the function is open, else `BadCall` for a call that cannot be delivered,
    and `BadArgument` for a call with an unknown argument or without a required argument.
    """
    _check_open(request, calls)
    check_deployed(**calls)


def check_unit_calls(request: Request, **calls: Call | None) -> None:
    """Check the calls of units, which have only a part of their arguments. Raises as `check_calls` does."""
    _check_open(request, calls)
    check_deployed_units(**calls)


def _check_open(request: Request, calls: Mapping[str, Call | None]) -> None:
    for field, call in calls.items():
        if call is not None and request.is_open:
            of = f"`{field}`" if field else "the task"
            detail = f"An open function accepts no task of a request: leave out {of}, or name it in a function's code."
            raise PermissionDenied(detail)
