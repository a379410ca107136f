"""Create the semaphores and rates that the catalogue declares, or set their limits, once the functions are deployed."""

from collections.abc import Callable
from urllib.parse import quote

from signalbox_tools.deploy.deployment_client import DeploymentClient, SmokeTestFailed, tokens
from signalbox_tools.deploy.smoke import Site


def ensured(site: Site, say: Callable[[str], None]) -> bool:
    """Give all semaphores and rates the catalogue's limits, and return whether that succeeded. Print the result.

    Leases that are held stay; further permits are granted to waiters at once.
    """
    declared = list(site.target.catalogue.declared)
    if not declared:
        return True
    token = tokens(site.target, site.account, site.run)
    try:
        with DeploymentClient(site.base_url, token, clock=site.clock) as client:
            for each in declared:
                client.request("PUT", f"{each.function}/{quote(each.name, safe='')}", each.body)
    except SmokeTestFailed as error:
        wrong = "The semaphores and rates of the catalogue are not all set"
        say(f"{wrong}: {error}. Deploy again: nothing else is missing.")
        return False
    say(f"Set the limits of {len(declared)} semaphores and rates of the catalogue.")
    return True
