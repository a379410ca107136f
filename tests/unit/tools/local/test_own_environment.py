"""Variables, secrets and roles of a user's function: what an entry may say, and their values on this machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import Catalogue, CatalogueError, load
from signalbox.flows.machine.callbacks import keys_of
from signalbox_tools.local.user_variables import own_environment


def changed(**entries: dict[str, Any]) -> Catalogue:
    found = load()
    functions = {
        **found.functions,
        **{name: replace(found.functions[name], **entry) for name, entry in entries.items()},
    }
    return replace(found, functions=functions)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"env": {"shop": "a"}}, "env names 'shop'; write capitals"),
    ({"env": {"SIGNALBOX_PROJECT": "a"}}, "a variable of the platform or the kit"),
    ({"env": {"PORT": "1"}}, "a variable of the platform or the kit"),
    ({"env": {"LD_PRELOAD": "/a.so"}}, "env names LD_PRELOAD, which changes the code that the whole process loads"),
    ({"env": {"LD_LIBRARY_PATH": "/a"}}, "env names LD_LIBRARY_PATH, which changes the code"),
    ({"env": {"HTTPS_PROXY": "http://a"}}, "or where it sends its requests and credentials: choose another name"),
    ({"secrets": {"HTTP_PROXY": "proxy"}}, "secrets names HTTP_PROXY, which"),
    ({"env": {"GCE_METADATA_HOST": "a"}}, "env names GCE_METADATA_HOST, which"),
    ({"env": {"SSLKEYLOGFILE": "/a"}}, "env names SSLKEYLOGFILE, which"),
    ({"env": {"PYTHONPATH": "/a"}}, "a variable of the platform or the kit"),
    ({"env": {"GOOGLE_APPLICATION_CREDENTIALS": "/a"}}, "a variable of the platform or the kit"),
    ({"env": {"LEVEL": 3}}, "env.LEVEL must be a string, not 3: put it in quotes"),
    ({"secrets": {"KEY": "a/b"}}, "secrets.KEY is 'a/b'; write the secret's name"),
    ({"secrets": {"KEY": "stripe:0"}}, "with :3 for a version"),
    ({"env": {"KEY": "a"}, "secrets": {"KEY": "a"}}, "KEY: name it in env or in secrets"),
    ({"roles": ("roles/owner",)}, "roles names roles/owner, which can change the project"),
    ({"roles": ("roles/storage.admin",)}, "name a narrower role"),
    ({"roles": ("roles/iam.serviceAccountUser",)}, "name a narrower role"),
    ({"roles": ("owner",)}, "write a predefined role: roles/aiplatform.user"),
    ({"isolated": True}, "isolated: its account has no rights, so it can have no enqueues"),
    ({"isolated": True, "enqueues": (), "tasks": ()}, "a function that queue invokes needs the database"),
    ({"invokes": ("link_refresh",)}, "invokes names link_refresh, which is closed to requests from outside"),
    ({"invokes": ("nothing",)}, "there is no function 'nothing'"),
    ({"instances_min": 11}, "instances_min must be from 0 to 10"),
]


@pytest.mark.parametrize(("entry", "complaint"), WRONG)
def test_an_entry_that_cannot_be_is_refused_with_what_to_write(entry: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogueError) as refused:
        changed(quilt=entry)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("name", ["LD_SDK_KEY", "ENV", "PROXY_URL", "METADATA_HOST"])
def test_a_name_that_only_resembles_a_refused_one_is_accepted(name: str) -> None:
    assert changed(quilt={"env": {name: "a"}}).functions["quilt"].env == {name: "a"}


@pytest.fixture
def project(tmp_path: Path) -> Catalogue:
    asked = {"env": {"SHOP": "Print"}, "secrets": {"STRIPE_KEY": "stripe-key", "MAIL_KEY": "mail:3"}}
    return replace(changed(quilt=asked), root=tmp_path, kit=load().root)


def test_a_secret_has_its_value_from_a_file_that_git_ignores_or_from_the_shell(
    project: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / ".env").write_text("# of the test account\nexport STRIPE_KEY='sk = 1'\nMAIL_KEY=a\nOTHER=1\n")
    monkeypatch.setenv("MAIL_KEY", "b")
    assert own_environment(project) == {"SHOP": "Print", "STRIPE_KEY": "sk = 1", "MAIL_KEY": "b"}


def test_a_file_of_secrets_may_begin_with_a_byte_order_mark(project: Catalogue) -> None:
    (project.root / ".env").write_bytes("\ufeffSTRIPE_KEY=1\r\nMAIL_KEY=2\r\n".encode())
    assert own_environment(project) == {"SHOP": "Print", "STRIPE_KEY": "1", "MAIL_KEY": "2"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a # of the test account", "a"),
        ("a#b", "a#b"),
        (" # none yet", ""),
        ("#a", "#a"),
        ('"a # b"', "a # b"),
        ("'a # b' # quoted", "a # b"),
        ('"a" # not "b"', "a"),
        ("a'#b", "a'#b"),
        ('"a', '"a'),
        ('\'{"a": "b"}\'', '{"a": "b"}'),
    ],
)
def test_a_comment_behind_a_value_is_not_part_of_it(project: Catalogue, line: str, value: str) -> None:
    (project.root / ".env").write_text(f"STRIPE_KEY={line}\nMAIL_KEY=2\n")
    assert own_environment(project)["STRIPE_KEY"] == value


PEM = "-----BEGIN KEY-----\nMIIE=\n# no comment\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f'"{PEM}"', PEM),
        (f"'{PEM}' # two lines", PEM),
        ('"' + PEM.replace("\n", "\\n") + '"', PEM),
        ('"' + PEM.replace("\n", "\r\n") + '"', PEM),
        (r'"say \"hi\""', 'say "hi"'),
        (r'"{\"a\": \"b\\n\"}" # JSON', '{"a": "b\\n"}'),
        (r'"a\\"', "a\\"),
        (r'"a\tb\$c"', "a\tb$c"),
        (r'"C:\dir\1"', r"C:\dir\1"),
        (r"'a\nb'", r"a\nb"),
        (r"a\nb", r"a\nb"),
        ('"a "b" c"', 'a "b" c'),
        ("'it's'", "it's"),
        ("a\u2028b\x85c", "a\u2028b\x85c"),
        ("", ""),
        ('""', ""),
        ("a=b=", "a=b="),
    ],
)
def test_a_value_may_have_escapes_and_several_lines(project: Catalogue, text: str, value: str) -> None:
    (project.root / ".env").write_bytes(f"\nSTRIPE_KEY={text}\nMAIL_KEY=2\n".encode())
    assert own_environment(project) == {"SHOP": "Print", "STRIPE_KEY": value, "MAIL_KEY": "2"}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_of_secrets_in_another_encoding_is_refused_with_its_line(project: Catalogue, encoding: str) -> None:
    (project.root / ".env").write_bytes("MAIL_KEY=2\nSTRIPE_KEY=größe\n".encode(encoding))
    line = {"latin-1": 2, "utf-16": 1}[encoding]
    with pytest.raises(CatalogueError, match=rf"\.env:{line}: it is not UTF-8: save the file as UTF-8"):
        own_environment(project)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_of_secrets_in_utf_16_without_its_mark_is_refused(project: Catalogue, encoding: str) -> None:
    (project.root / ".env").write_bytes("MAIL_KEY=2\nSTRIPE_KEY=3\n".encode(encoding))
    with pytest.raises(CatalogueError, match=r"\.env:1: it is not UTF-8: save the file as UTF-8"):
        own_environment(project)


@pytest.mark.parametrize(("text", "line"), [('A="1\n2"\n\nB\n', 4), ("=a\n", 1), ("# a\nexport A\n", 2)])
def test_a_line_that_is_no_variable_is_refused_with_its_number(project: Catalogue, text: str, line: int) -> None:
    (project.root / ".env").write_text(text)
    with pytest.raises(CatalogueError, match=rf"\.env:{line}: write NAME=value"):
        own_environment(project)


def test_a_secret_without_a_value_is_refused_before_anything_starts(project: Catalogue) -> None:
    (project.root / ".env").write_text("STRIPE_KEY=1\n")
    with pytest.raises(CatalogueError, match=r"functions.quilt: the secret mail:3 has no value here: .* MAIL_KEY=…"):
        own_environment(project)
    (project.root / ".env").write_text("STRIPE_KEY\n")
    with pytest.raises(CatalogueError, match=r"\.env:1: write NAME=value"):
        own_environment(project)


def test_one_process_cannot_have_two_values_of_a_variable() -> None:
    with pytest.raises(CatalogueError, match=r"env.SHOP is 'b', and 'a' in quilt: give one of them another name"):
        own_environment(changed(quilt={"env": {"SHOP": "a"}}, todos={"env": {"SHOP": "b"}}))


def test_the_keys_of_callbacks_are_a_secret_that_has_a_value_on_each_machine() -> None:
    found = changed(quilt={"secrets": {"SIGNALBOX_CALLBACK_KEYS": "callback-keys"}})
    [key] = keys_of(own_environment(found)["SIGNALBOX_CALLBACK_KEYS"])
    assert [key] == keys_of(own_environment(found)["SIGNALBOX_CALLBACK_KEYS"])
    with pytest.raises(CatalogueError, match="a variable of the platform or the kit"):
        changed(quilt={"env": {"SIGNALBOX_CALLBACK_KEYS": "a" * 32}})
