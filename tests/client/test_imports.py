"""Nobody needs a library they do not use, and whoever does is told its name."""

from __future__ import annotations

import subprocess
import sys

import pytest

PATIENCE_S = 60


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.stdout + done.stderr


def test_headgate_itself_imports_no_http_library() -> None:
    program = "import headgate, headgate.client, sys; print({'httpx', 'httpx2', 'requests'} & set(sys.modules))"
    assert run(program).strip() == "set()"


def test_requests_alone_is_enough_for_the_adapter() -> None:
    program = "import sys; sys.modules['httpx'] = None; import headgate.client.requests as r; print(r.RetryAdapter())"
    assert "RetryAdapter object" in run(program)


@pytest.mark.parametrize(("missing", "taken"), [((), "httpx"), (("httpx2",), "httpx"), (("httpx",), "httpx2")], ids=str)
def test_the_transports_are_those_of_httpx_and_where_only_httpx2_is_installed_those(
    missing: tuple[str, ...], taken: str
) -> None:
    program = f"""import sys
sys.modules.update(dict.fromkeys({missing!r}))
from headgate.client import AsyncRetryTransport, RetryTransport
print(RetryTransport.__module__, AsyncRetryTransport.__module__)
other = {{"httpx", "httpx2"}} - {{{taken!r}}}
assert not other & {{name for name, module in sys.modules.items() if module}}
"""
    assert run(program).split() == [f"headgate.client.{taken}"] * 2


@pytest.mark.parametrize(
    ("missing", "statement", "advice"),
    [
        ("httpx", "import headgate.client.httpx", "pip install 'headgate[client]'"),
        ("httpx2", "import headgate.client.httpx2", "pip install 'headgate[client2]'"),
        ("requests", "import headgate.client.requests", "pip install 'headgate[requests]'"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(missing: str, statement: str, advice: str) -> None:
    output = run(f"import sys; sys.modules[{missing!r}] = None; {statement}")
    last = output.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: headgate.client")
    assert f"needs {missing}, which is not installed" in last
    assert advice in last


@pytest.mark.parametrize("name", ["RetryTransport", "AsyncRetryTransport"])
def test_with_neither_library_httpx_is_asked_for(name: str) -> None:
    output = run(f"import sys; sys.modules.update(httpx=None, httpx2=None); from headgate.client import {name}")
    last = output.strip().splitlines()[-1]
    assert "needs httpx, which is not installed. Run: pip install 'headgate[client]'" in last
    assert "headgate.client.httpx2" in last


def test_a_name_that_does_not_exist_is_an_ordinary_error() -> None:
    assert "AttributeError" in run("import headgate.client; headgate.client.Nonsense")
