"""The Terraform files stay within the language that Terraform 1.9 and OpenTofu 1.9 have in common.

Terraform itself, in the other tests, refuses what only OpenTofu has.
"""

import re
from pathlib import Path

import pytest

INFRA = Path(__file__).parents[2] / "infra"
FILES = sorted(path for path in INFRA.rglob("*.tf") if ".terraform" not in path.parts)

BLOCKS = frozenset(
    {"terraform", "provider", "variable", "locals", "data", "resource", "module", "output", "check", "moved", "import"}
)
"""The blocks that both have had since 1.5, the last version that they share."""

NEWER = {
    "an ephemeral value": r"\bephemeral\b",
    "a function of a provider": r"\bprovider::",
    "a function after 1.5": r"\b(templatestring|issensitive|ephemeralasnull|base64gunzip|cidrcontains|urldecode)\(",
    "a write-only argument": r"^\s*\w+_wo(_version)?\s*=",
    "terraform.applying or its like": r"\b(terraform|tofu)\.(?!workspace\b)[a-z_]+\b",
}


def code_of(text: str) -> str:
    """Return a file without its comments and texts without interpolations."""
    text = re.sub(r"<<-?(\w+)\n.*?\n\s*\1\n", '""\n', text, flags=re.DOTALL)
    text = re.sub(r'"(?:[^"\\$\n]|\\.|\$(?!\{))*"', '""', text)
    return re.sub(r"(#|//).*", "", text)


def newer_syntax(text: str) -> list[str]:
    code = code_of(text)
    blocks = set(re.findall(r"^(\w+)(?:\s+\"[^\"]*\")*\s*\{", code, re.MULTILINE))
    found = [f"a block `{name}`" for name in sorted(blocks - BLOCKS)]
    return found + [what for what, pattern in NEWER.items() if re.search(pattern, code, re.MULTILINE)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(INFRA)))
def test_a_file_has_only_what_both_accept(path: Path) -> None:
    assert newer_syntax(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('ephemeral "random_password" "p" {\n}\n', "a block `ephemeral`"),
        ('action "google_x" "y" {\n}\n', "a block `action`"),
        ("removed {\n  from = google_x.y\n}\n", "a block `removed`"),
        ('variable "x" {\n  ephemeral = true\n}\n', "an ephemeral value"),
        ('locals {\n  a = provider::google::f("x")\n}\n', "a function of a provider"),
        ('locals {\n  a = "${templatestring(local.b, {})}"\n}\n', "a function after 1.5"),
        ('resource "x" "y" {\n  secret_data_wo = var.secret\n}\n', "a write-only argument"),
        ("locals {\n  a = terraform.applying\n}\n", "terraform.applying or its like"),
    ],
)
def test_newer_syntax_is_found(text: str, found: str) -> None:
    assert found in newer_syntax(text)


def test_comments_and_texts_are_not_code() -> None:
    assert newer_syntax('locals {\n  a = "an ephemeral terraform.applying" # ephemeral\n}\n') == []


def test_no_message_names_a_file_that_a_project_of_ones_own_does_not_have() -> None:
    """There the catalogue is `signalbox.yaml`."""
    messages = [line for file in FILES for line in file.read_text("utf-8").splitlines() if "error_message" in line]
    assert messages
    assert [line for line in messages if "catalogue.yaml" in line] == []
