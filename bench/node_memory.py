"""Resident memory of a node that has nothing to do."""

import time

from bench.figure import Effort, Figure
from bench.node import node, rls_rules
from bench.player import Player
from bench.processes import compile_c, memory_bytes
from bench.rls_players import Caller
from bench.rule_sets import HTTP_BODY

NAME = "node_memory"
TARGET_MB = 60.0
SETTLE_S = 1.0
REQUESTS = 10_000
USERS = 1_000


def _resident_mb(pid: int) -> float:
    return memory_bytes("VmRSS", pid=pid)[0] / 1e6


def run(_: Effort) -> list[Figure]:
    with node(rls_rules()) as running:
        time.sleep(SETTLE_S)
        started_mb = _resident_mb(running.pid)
        command = [str(compile_c("load.c")), "--port", str(running.http_port), "--path", "/v1/check"]
        Player([*command, "--body", HTTP_BODY, "--vary", str(USERS)], running.pid).play(REQUESTS)
        Caller().player(running.pid, running.grpc_port).play(REQUESTS)
        time.sleep(SETTLE_S)
        used_mb = _resident_mb(running.pid)
        anonymous_mb = memory_bytes("RssAnon", pid=running.pid)[0] / 1e6
    return [
        Figure(NAME, "an idle node, 5 rules, memory store: resident memory", started_mb, "MB", TARGET_MB),
        Figure(
            NAME,
            f"the same after {REQUESTS:,} checks and {REQUESTS:,} RLS calls",
            used_mb,
            "MB",
            TARGET_MB,
            raw={"of it not of files MB": round(anonymous_mb, 1)},
        ),
    ]
