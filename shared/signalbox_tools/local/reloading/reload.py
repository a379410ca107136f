"""Bring a running stack up to date with the catalogue and the code, without losing a request.

The new version is checked first: the catalogue, code that the cloud would refuse, syntax, undefined names. Then it is
loaded in a separate process, next to the one that serves, and takes over its port once it has loaded. If anything is
wrong, the last good version continues to serve.

The other services restart only if the new catalogue changes their settings. Their queues and events are on disk, so
nothing is lost.
"""

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.project import KIT, PACKAGES
from signalbox.catalogue.reading import Catalogue, CatalogueError
from signalbox_tools.local.logs.tracebacks import summary
from signalbox_tools.local.reloading.source_errors import source_errors
from signalbox_tools.local.services.command_lines import services
from signalbox_tools.local.services.ports_and_sockets import StackLayout, with_catalogue
from signalbox_tools.local.services.service_process import Service
from signalbox_tools.local.services.supervisor import Supervisor
from signalbox_tools.local.user_variables import own_environment
from signalbox_tools.packaging.function_checks import check_all
from signalbox_tools.packaging.imported_modules import LIBRARY, PackagingError

FUNCTIONS = "functions"


class NotReloaded(Exception):
    """The new version cannot run. The message has the reason, file and line; `trace` is the traceback or empty."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def reload(layout: StackLayout, supervisor: Supervisor) -> StackLayout:
    """Check and load the files as they are, and switch to them. Return the new layout. Raises `NotReloaded`."""
    catalogue = checked_catalogue(layout)
    newer = with_catalogue(layout, catalogue)
    planned = {service.name: service for service in services(newer)}
    if trace := supervisor.replace(planned.pop(FUNCTIONS)):
        raise NotReloaded(summary(trace), trace)
    for service in planned.values():
        _update(service, supervisor)
    if newer.catalogue.triggers != layout.catalogue.triggers and "firestore" in planned:
        planned["firestore"].prepare()
    return newer


def checked_catalogue(layout: StackLayout) -> Catalogue:
    """Read the catalogue and check it with the code of its functions. Raises `NotReloaded`."""
    last = layout.catalogue
    try:
        catalogue = catalogues.load(layout.catalogue_file, examples=last.examples, database=last.database)
        newer = sorted(set(catalogue.elsewhere.values()) - layout.others.keys() - set(last.elsewhere.values()))
        if newer and not last.database:  # a function with a database invokes none of another one
            raise NotReloaded(f"the catalogue has a new database, {newer[0]}: stop `signalbox dev`, and start it again")
        folders = [PACKAGES / LIBRARY, *(function.folder for function in catalogue.functions.values())]
        if errors := source_errors(folders, catalogue.root):
            raise NotReloaded("\n".join(errors))
        check_all(catalogue, KIT.root)
        own_environment(catalogue)
    except (CatalogueError, PackagingError, OSError) as error:
        # A file that does not compile keeps the catalogue from being read: name the file and the line.
        served = [function.folder for function in layout.catalogue.functions.values() if function.folder.is_dir()]
        errors = source_errors(served, layout.catalogue.root) if isinstance(error, CatalogueError) else []
        raise NotReloaded("\n".join(errors) or str(error)) from error
    return catalogue


def _update(service: Service, supervisor: Supervisor) -> None:
    running = supervisor.service(service.name)
    if (running.command, running.environment) != (service.command, service.environment):
        supervisor.restart(service)
    else:
        supervisor.adopt(service)
