"""nghttp2's h2load as a second witness: it knows one message and no users, but it is not ours."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Unavailable
from bench.player import LOAD_CORE, Round
from bench.processes import OUT, cpu_seconds, pin

# With the libraries a small system lacks. They are unpacked, not installed: that needs no root.
PACKAGES = ("nghttp2-client", "libnghttp2-14", "libev4", "libjansson4", "libjemalloc2")
FOLDER = Path(sys.prefix) / "h2load"
FETCH_S_MAX = 120


def command() -> list[str]:
    """h2load from the PATH, else from the distribution's packages."""
    found = shutil.which("h2load")
    if found is not None:
        return [found]
    program = FOLDER / "usr" / "bin" / "h2load"
    if not program.exists():
        _fetch()
    libraries = {str(path.parent) for path in FOLDER.glob("usr/lib/**/*.so*")}
    return ["env", f"LD_LIBRARY_PATH={':'.join(sorted(libraries))}", str(program)]


def _fetch() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable("there is no h2load on the PATH, and no apt-get to fetch it with")
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES],
            cwd=FOLDER,
            capture_output=True,
            timeout=FETCH_S_MAX,
            check=True,
        )
        for package in sorted(FOLDER.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(FOLDER)], timeout=FETCH_S_MAX, check=True)
            package.unlink()
    except (subprocess.SubprocessError, OSError) as error:
        raise Unavailable(f"there is no h2load on the PATH, and its package cannot be had: {error}") from None


def play(h2load: Sequence[str], pid: int, url: str, message: bytes, requests: int) -> Round:
    """It counts HTTP statuses alone: that the calls succeed has to be known from elsewhere."""
    body = OUT / "h2load.bin"
    body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    arguments = ["-n", str(requests), "-c", "4", "-m", "16", "-d", str(body)]
    headers = [part for line in ("content-type: application/grpc", "te: trailers") for part in ("-H", line)]
    before_s = cpu_seconds(pid)
    with subprocess.Popen(
        [*h2load, *arguments, *headers, url], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        pin(process.pid, LOAD_CORE)
        output = process.communicate()[0]
    cpu_s = cpu_seconds(pid) - before_s
    finished = re.search(r"finished in ([\d.]+)(ms|s), ([\d.]+) req/s", output)
    if finished is None or f"{requests} succeeded" not in output:
        raise RuntimeError(f"h2load did not succeed: {output}")
    seconds = float(finished[1]) / (1000 if finished[2] == "ms" else 1)
    return Round(cpu_s / requests * 1e6, float(finished[3]), min(1.0, cpu_s / seconds), {})
