"""What a command reads of a deployment that lacks the function is answered with what to add, without a request."""

from pathlib import Path

import pytest

from signalbox_tools.deploy import deployment_target
from signalbox_tools.status import base_url
from signalbox_tools.status.base_url import Absent, getter


def test_a_function_that_is_not_deployed_for_callers_is_named_with_the_entry_to_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "signalbox.yaml").write_text("functions: {}\n")
    monkeypatch.setattr(base_url, "tokens_to_call", lambda *_: lambda _: "")
    get = getter(deployment_target.read("my-project", "dev", root=tmp_path), "absent")
    with pytest.raises(Absent, match=r"failures is not deployed for callers: add `api: \[failures\]` to the catalogue"):
        get("failures?state=failed")
