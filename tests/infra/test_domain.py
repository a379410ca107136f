"""A user's domain leads to every function for people; by default there is none."""

import re
from collections.abc import Mapping

import pytest

from signalbox.catalogue.reading import load
from tests.infra.conftest import DOMAIN
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

PEOPLES = sorted(each.name for each in load().functions.values() if "people" in each.invoked_by)


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


def test_a_path_that_is_no_functions_is_not_found(made: Mapping[str, Resource]) -> None:
    [matcher] = made['google_compute_url_map.domain["domain"]'].values["path_matcher"]
    [policy] = matcher["default_route_action"][0]["fault_injection_policy"]
    assert (policy["abort"][0]["http_status"], policy["abort"][0]["percentage"]) == (404, 100)


def test_only_functions_for_people_are_behind_the_domain(made: Mapping[str, Resource]) -> None:
    groups = [each.values for each in made.values() if each.kind == "google_compute_region_network_endpoint_group"]
    behind = {each["cloud_run"][0]["service"] for each in groups}
    assert behind == {"dev-" + name.replace("_", "-") for name in PEOPLES}


def test_the_certificate_is_the_domains_and_the_page_names_the_address(made: Mapping[str, Resource]) -> None:
    certificate = made['google_compute_managed_ssl_certificate.domain["domain"]'].values
    assert certificate["managed"][0]["domains"] == [DOMAIN]
    page = (INFRA.parent / "docs" / "custom-domain.md").read_text("utf-8")
    [address] = re.findall(r"addresses describe (\S+)", page)
    assert address == made['google_compute_global_address.domain["domain"]'].values["name"]


def test_another_domain_gets_its_certificate_before_the_old_one_goes(with_options: Workspace) -> None:
    with_options.plan(domain="www.example.com")
    assert with_options.changes()['google_compute_managed_ssl_certificate.domain["domain"]'] == ["create", "delete"]
