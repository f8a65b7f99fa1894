"""`headgate serve` as a gateway: its control plane answers beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

from tests.gateway.upstream import Upstream
from tests.servers.program import PATIENCE_S, Serve


def test_a_block_that_is_made_at_the_admin_address_holds_at_the_gateway(tmp_path: Path, own_upstream: Upstream) -> None:
    with Serve(tmp_path, "--upstream", own_upstream.url, "--admin", "127.0.0.1:0") as serve:
        admin = f"http://{serve.ready['admin']}"
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            assert client.get(f"{serve.url}/api/v1/rules").text == "ok"
            client.headers["Authorization"] = f"Bearer {serve.token}"
            block = {"ip": "127.0.0.1", "why": "tried"}
            made = client.post(f"{admin}/api/v1/blocks", json=block)
            assert made.is_success, made.text
            del client.headers["Authorization"]
            statuses = [client.get(f"{serve.url}/x").status_code]
            while statuses[-1] == 200:
                assert len(statuses) < 10_000
                statuses.append(client.get(f"{serve.url}/x").status_code)
        assert statuses[-1] == 403


def test_without_an_admin_address_it_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headgate", "serve", "--upstream", "http://127.0.0.1:3000"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode != 0
    assert "--admin" in ended.stderr
