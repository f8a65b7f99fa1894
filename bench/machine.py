"""What the figures were measured on, and with which versions."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
OTHER_CORES_MAX = 0.05
PACKAGES = ("headgate", "limits", "throttled-py", "fastapi", "slowapi", "flask", "flask-limiter")


def _first(path: str, start: str) -> str:
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(start)), "unknown")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    try:
        return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "none"


def describe() -> dict[str, str]:
    memory_kb = _first("/proc/meminfo", "MemTotal").split()[0]
    return {
        "CPU": _first("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory_kb) / 1e6:.0f} GB" if memory_kb.isdigit() else "unknown",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "C compiler": _compiler(),
        **{package: _version(package) for package in PACKAGES},
    }


class OtherWork:
    """How much of a core others used while we measured. More than a little, and the figures are void."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._others_s = self._used_by_others_s()

    def cores(self) -> float:
        used_s = self._used_by_others_s() - self._others_s
        return max(0.0, used_s / (time.monotonic() - self._start_s))

    @staticmethod
    def _used_by_others_s() -> float:
        user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
        ours = os.times()
        ours_s = ours.user + ours.system + ours.children_user + ours.children_system
        return (user + nice + system + irq + softirq) / TICKS_A_SECOND - ours_s


def warn_of_others(others: OtherWork) -> float:
    """How much it was."""
    cores = others.cores()
    if cores > OTHER_CORES_MAX:
        print(f"warning: other programs used {cores:.0%} of a core meanwhile: measure again", file=sys.stderr)
    return cores
