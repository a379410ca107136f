"""Segments of an address behind the place where a function is mounted."""

import pytest

from signalbox.adapters.http.paths import match, segments_of, segments_of_pattern


def wsgi(raw: str, path: str, mount: str = "") -> dict[str, str]:
    return {"RAW_URI": raw, "SCRIPT_NAME": mount, "PATH_INFO": path}


@pytest.mark.parametrize(
    ("environ", "segments"),
    [
        (wsgi("/", "/"), ()),
        (wsgi("/documents", "", "/documents"), ()),
        (wsgi("/documents/", "/", "/documents"), ()),
        (wsgi("/documents/a%2Fb?x=/y", "/a/b", "/documents"), ("a/b",)),
        (wsgi("/a%252Fb", "/a%2Fb"), ("a%2Fb",)),
        (wsgi("/%C3%A9", "/\u00c3\u00a9"), ("é",)),
        (wsgi("//a", "//a"), ("", "a")),
        (wsgi("/a/", "/a/"), ("a", "")),
        (wsgi("http://h:1/documents/a%2Fb", "/a/b", "/documents"), ("a/b",)),
        ({"REQUEST_URI": "/a%2Fb", "PATH_INFO": "/a/b"}, ("a/b",)),
    ],
)
def test_the_raw_address_is_cut_before_it_is_decoded(environ: dict[str, str], segments: tuple[str, ...]) -> None:
    assert segments_of(environ) == segments


@pytest.mark.parametrize(
    ("environ", "segments"),
    [
        ({"PATH_INFO": "/a%2Fb/c"}, ("a%2Fb", "c")),
        (wsgi("/prefix/documents/a", "/a"), ("a",)),
        (wsgi("*", "/\u00c3\u00a9/"), ("é", "")),
    ],
)
def test_a_path_that_was_rewritten_on_the_way_is_taken_as_it_is(
    environ: dict[str, str], segments: tuple[str, ...]
) -> None:
    assert segments_of(environ) == segments


@pytest.mark.parametrize(
    ("pattern", "segments", "found"),
    [
        ("/", (), {}),
        ("/", ("a",), None),
        ("/{key}", ("a",), {"key": "a"}),
        ("/{key}", (), None),
        ("/{key}", ("",), None),
        ("/{key}/versions", ("a", "versions"), {"key": "a"}),
        ("/{key}/versions", ("a", "restore"), None),
        ("/{name}/leases/{id}", ("fork", "leases", "7"), {"name": "fork", "id": "7"}),
    ],
)
def test_a_pattern_fits_segment_by_segment(
    pattern: str, segments: tuple[str, ...], found: dict[str, str] | None
) -> None:
    assert match(segments_of_pattern(pattern), segments) == found
