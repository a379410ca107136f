"""A user's domain leads to every function for people; by default there is none."""

import json
import re
from collections.abc import Mapping

import pytest

from signalbox.catalogue.reading import load
from signalbox_tools.deploy.deployment_target import Target
from tests.infra.conftest import DOMAIN
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTION = "google_cloudfunctions2_function"
PEOPLES = sorted(each.name for each in load().functions.values() if "people" in each.invoked_by)

NAMES = {"dev-" + name.replace("_", "-") for name in PEOPLES}


@pytest.fixture(scope="module")
def made(with_options: Workspace) -> Mapping[str, Resource]:
    return with_options.resources()


def test_by_default_there_is_none(resources: Mapping[str, Resource]) -> None:
    assert [address for address in resources if "google_compute" in address or "compute.googleapis" in address] == []


def test_what_was_applied_leaves_nothing_to_do(with_options: Workspace) -> None:
    assert not with_options.differs()


def test_a_path_leads_to_its_function_without_the_functions_name(made: Mapping[str, Resource]) -> None:
    [matcher] = made['google_compute_url_map.domain["domain"]'].values["path_matcher"]
    found = {
        tuple(each["paths"]): (each["service"], each["route_action"][0]["url_rewrite"][0]["path_prefix_rewrite"])
        for each in matcher["path_rule"]
    }
    services = {name: made[f'google_compute_backend_service.function["{name}"]'].values for name in PEOPLES}
    assert found == {
        (f"/{segment}", f"/{segment}/*"): (services[name]["id"], "/")
        for name, segment in ((name, name.replace("_", "-")) for name in PEOPLES)
    }


def test_a_path_of_no_function_is_not_found(made: Mapping[str, Resource]) -> None:
    [matcher] = made['google_compute_url_map.domain["domain"]'].values["path_matcher"]
    [policy] = matcher["default_route_action"][0]["fault_injection_policy"]
    assert (policy["abort"][0]["http_status"], policy["abort"][0]["percentage"]) == (404, 100)


def test_only_functions_for_people_are_behind_the_domain(made: Mapping[str, Resource]) -> None:
    groups = [each.values for each in made.values() if each.kind == "google_compute_region_network_endpoint_group"]
    behind = {each["cloud_run"][0]["service"] for each in groups}
    assert behind == NAMES


def test_the_certificate_is_the_domains_and_the_page_names_the_address(made: Mapping[str, Resource]) -> None:
    certificate = made['google_compute_managed_ssl_certificate.domain["domain"]'].values
    assert certificate["managed"][0]["domains"] == [DOMAIN]
    page = (INFRA.parent / "docs" / "custom-domain.md").read_text("utf-8")
    [address] = re.findall(r"addresses describe (\S+)", page)
    assert address == made['google_compute_global_address.domain["domain"]'].values["name"]


def test_by_default_the_functions_own_addresses_stay(with_options: Workspace, made: Mapping[str, Resource]) -> None:
    assert ingress_of_people(made) == {"ALLOW_ALL"}
    assert with_options.outputs()["base_url"] == "https://us-central1-demo-project.cloudfunctions.net/dev-"


def test_people_may_be_let_in_through_the_domain_only(with_options: Workspace) -> None:
    with_options.plan(domain_only=True)
    planned = with_options.planned()
    assert ingress_of_people(planned) == {"ALLOW_INTERNAL_AND_GCLB"}
    internal = [each for each in planned.values() if each.kind == FUNCTION and each.values["name"] not in NAMES]
    assert {each.values["service_config"][0]["ingress_settings"] for each in internal} == {"ALLOW_INTERNAL_ONLY"}
    shown = json.loads(with_options.run("show", "-json", "planned").stdout)["planned_values"]["outputs"]
    assert shown["base_url"]["value"] == f"https://{DOMAIN}/"
    assert shown["urls"]["value"]["documents"] == f"https://{DOMAIN}/documents"


def test_clients_of_the_deployment_know_the_same_base_and_ask_for_tokens_of_the_functions_own_address() -> None:
    settings = {"prefix": "dev", "domain": DOMAIN}
    own = "https://us-central1-demo-project.cloudfunctions.net/dev-"
    assert Target("demo-project", "dev", "us-central1", settings).base_url == own
    place = Target("demo-project", "dev", "us-central1", {**settings, "domain_only": True})
    assert place.base_url == f"https://{DOMAIN}/"
    assert place.audience(f"https://{DOMAIN}/semaphore-wait") == f"{own}semaphore-wait"
    assert place.audience(f"{own}documents") == f"{own}documents"


def ingress_of_people(resources: Mapping[str, Resource]) -> set[str]:
    found = [each.values for each in resources.values() if each.kind == FUNCTION and each.values["name"] in NAMES]
    assert len(found) == len(NAMES)
    return {each["service_config"][0]["ingress_settings"] for each in found}


def test_another_domain_gets_its_certificate_before_the_old_one_goes(with_options: Workspace) -> None:
    with_options.plan(domain="www.example.com")
    assert with_options.changes()['google_compute_managed_ssl_certificate.domain["domain"]'] == ["create", "delete"]
