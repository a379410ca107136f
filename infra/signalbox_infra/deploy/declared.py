"""Create the semaphores that the catalogue declares, or set their limits, once the functions are deployed."""

from collections.abc import Callable
from urllib.parse import quote

from signalbox.catalogue.reading import SEMAPHORES
from signalbox_infra.deploy.deployment_client import DeploymentClient, SmokeTestFailed, tokens
from signalbox_infra.deploy.smoke import Site


def ensured(site: Site, say: Callable[[str], None]) -> bool:
    """Return whether all semaphores of the catalogue have its limits; say how many, or what went wrong.

    Leases that are held stay; further permits are granted to waiters at once.
    """
    semaphores = site.target.catalogue.semaphores.values()
    if not semaphores:
        return True
    token = tokens(site.target, site.account, site.run)
    try:
        with DeploymentClient(site.base_url, token, clock=site.clock) as client:
            for semaphore in semaphores:
                client.request("PUT", f"{SEMAPHORES}/{quote(semaphore.name, safe='')}", semaphore.body)
    except SmokeTestFailed as error:
        say(f"The semaphores of the catalogue are not all set: {error}. Deploy again: nothing else is missing.")
        return False
    say(f"Set the limits of {len(semaphores)} semaphores of the catalogue.")
    return True
