"""Processes of the benchmarks: children that start fresh, what they use, and which core they run on."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
OUT = REPOSITORY / "bench" / "out"
CHILD_TIMEOUT_S = 600
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def run_child(module: str, *arguments: str | int) -> dict[str, Any]:
    """Run one of our modules in a fresh process; it prints one JSON object."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, timeout=CHILD_TIMEOUT_S, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:])} ended with status {done.returncode}; its error is above")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def memory_bytes(*names: str, pid: int | None = None) -> list[int]:
    """Fields of a process's /proc status (VmRSS, VmHWM, RssAnon …); of this one by default."""
    status = Path(f"/proc/{pid or 'self'}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return [int(fields[name].split()[0]) * 1024 for name in names]


def forget_peak_memory() -> None:
    """From here on VmHWM is the peak since this call."""
    Path("/proc/self/clear_refs").write_text("5")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads together."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_A_SECOND


def pin(pid: int, position: int) -> None:
    """Keep a process on one core, where there are several: server and load generator must not push each other
    around."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {cores[position % len(cores)]})


def compile_c(source: str) -> Path:
    OUT.mkdir(exist_ok=True)
    program = OUT / Path(source).stem
    command: Sequence[str] = (
        *("gcc", "-O2", "-std=c17", "-Wall", "-Wextra", "-Werror"),
        *("-o", str(program), str(REPOSITORY / "bench" / source)),
    )
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise RuntimeError(f"gcc is needed to build bench/{source}; install a C compiler") from None
    return program
