"""Programs that others wrote: curl, h2load, httpx."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench import h2load
from bench.figure import Unavailable
from tests.gateway import bodies
from tests.gateway.app import AppServer
from tests.gateway.gate import Gate
from tests.gateway.upstream import Upstream
from tests.proxies.tokens import bearer

SIZE = 20 * 2**20
RUN_S = 60


def curl(*words: str) -> str:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("no curl on the PATH")
    done = subprocess.run(
        [program, "-sS", "-q", "--noproxy", "*", *words], capture_output=True, text=True, timeout=RUN_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2-prior-knowledge"])
def test_curl_gets_and_sends(gate: Gate, app: AppServer, tmp_path: Path, version: str) -> None:
    if "http2" in version and "HTTP2" not in curl("--version"):
        pytest.skip("this curl has no HTTP/2")
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(bodies.body(SIZE))
    told = curl(version, "-T", str(sent), f"{gate.url}/app/up")
    assert hashlib.sha256(sent.read_bytes()).hexdigest() in told
    assert curl(version, "-o", str(got), "-w", "%{http_code}", f"{gate.url}/app/bytes?size={SIZE}") == "200"
    assert got.read_bytes() == sent.read_bytes()
    # What is posted from a file is announced with `Expect: 100-continue`.
    assert f'"size": {SIZE}' in curl(version, "--data-binary", f"@{sent}", f"{gate.url}/app/up")


def test_curl_is_refused_past_the_limit_and_told_when_to_come_back(gate: Gate, upstream: Upstream) -> None:
    shown = [part for name, value in bearer("curl").items() for part in ("-H", f"{name}: {value}")]
    answers = [curl("-i", *shown, f"{gate.url}/few/x") for _ in range(4)]
    assert [re.search(r"HTTP/1.1 (\d+)", answer)[1] for answer in answers] == ["200", "200", "200", "429"]  # type: ignore[index]
    assert re.search(r"(?i)retry-after: \d+", answers[3])
    assert len(upstream.messages) == 3


def test_h2load_is_answered_throughout(gate: Gate, upstream: Upstream) -> None:
    try:
        program = h2load.command()
    except Unavailable as reason:
        pytest.skip(str(reason))
    words = ["-n", "3000", "-c", "10", "-m", "100", gate.url]
    done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=RUN_S)
    assert "3000 succeeded, 0 failed, 0 errored" in done.stdout, done.stdout + done.stderr
    assert len(upstream.messages) == 3000


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_httpx_sees_the_application_and_the_rate(gate: Gate, app: AppServer, http2: bool) -> None:
    with gate.client(http2) as client:
        seen = client.get("/app/x%20y?q=1", headers={"X-Own": "kept"})
        assert seen.json()["path"] == "/app/x%20y"
        assert ["x-own", "kept"] in seen.json()["fields"]
        assert seen.headers["X-RateLimit-Limit"] == "100000000"
        assert seen.headers["Server"] == "uvicorn"
