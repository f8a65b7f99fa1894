"""The unit: every directive known, its command taken by the real node, its bounds wide enough for the settings."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.settings import Settings, read_settings
from tests.examples.command import pairs, running
from tests.proxies.example import EXAMPLES

UNIT = EXAMPLES / "systemd" / "headgate-node.service"
CONTROL = EXAMPLES / "systemd" / "headgate-control.service"
EACH_UNIT = pytest.mark.parametrize("unit", [UNIT, CONTROL], ids=lambda unit: unit.stem)
PROGRAM = "/opt/headgate/bin/headgate"
ANALYZE_TIMEOUT_S = 60
KNOWN = {
    "Unit": "Description Wants After",
    "Install": "WantedBy",
    "Service": """
        Type ExecStart ExecStartPost ExecReload EnvironmentFile LoadCredential Restart RestartSec TimeoutStartSec
        TimeoutStopSec DynamicUser Group RuntimeDirectory RuntimeDirectoryMode UMask CPUQuota MemoryMax TasksMax
        LimitNOFILE
        AmbientCapabilities CapabilityBoundingSet LockPersonality MemoryDenyWriteExecute NoNewPrivileges PrivateDevices
        PrivateTmp ProcSubset ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs
        ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC RestrictAddressFamilies
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID SystemCallArchitectures SystemCallFilter
        SystemCallErrorNumber
    """,
}


def directives(text: str) -> list[tuple[str, str, str]]:
    """Section, name, value; as systemd reads them, and failing where it would complain."""
    found: list[tuple[str, str, str]] = []
    section = ""
    for line in text.splitlines():
        if not line or line.startswith(("#", ";")):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        found.append((section, name, value))
    return found


def value_of(name: str, unit: Path = UNIT) -> str:
    (value,) = [value for _, key, value in directives(unit.read_text()) if key == name]
    return value


@EACH_UNIT
def test_every_directive_is_one_systemd_knows_in_its_section(unit: Path) -> None:
    for section, name, _ in directives(unit.read_text()):
        assert name in KNOWN[section].split(), f"[{section}] {name}"


@EACH_UNIT
def test_systemd_itself_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on the PATH; the directives are checked against a list all the same")
    # It looks for the program as well.
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.prefix) / "bin" / "headgate")))
    said = subprocess.run(
        [analyze, "verify", here], capture_output=True, text=True, timeout=ANALYZE_TIMEOUT_S, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")


def test_the_node_takes_the_units_command(tmp_path: Path) -> None:
    program, verb, *flags = shlex.split(value_of("ExecStart"))
    assert (program, verb) == (PROGRAM, "node")
    with running(flags, (EXAMPLES / "nginx" / "rules.yaml").read_text(), tmp_path) as node:
        assert node.status("admin", "/readyz") == 200
        assert node.ready.keys() >= {"http", "grpc", "uds", "admin"}


def test_the_socket_lies_in_the_folder_the_unit_makes() -> None:
    assert f"--uds /run/{value_of('RuntimeDirectory')}/node.sock" in value_of("ExecStart")


def test_the_units_bounds_leave_room_for_the_settings() -> None:
    assert int(value_of("LimitNOFILE")) > Settings().max_connections
    assert int(value_of("TimeoutStopSec")) > Settings().drain_timeout_s


@EACH_UNIT
def test_a_reload_is_the_signal_that_reads_files_again(unit: Path) -> None:
    assert value_of("ExecReload", unit) == "/bin/kill -HUP $MAINPID"


def test_the_control_planes_command_is_one_it_takes_with_the_credentials_it_is_given() -> None:
    program, verb, *flags = shlex.split(value_of("ExecStart", CONTROL))
    assert (program, verb) == (PROGRAM, "control")
    given = {flag.removeprefix("--").replace("-", "_"): value for flag, value in pairs(flags).items()}
    settings = read_settings(given, environ={"HEADGATE_DATABASE": "sqlite:///control.db"}, folder="/nonexistent")
    assert settings.control == "0.0.0.0:8090"
    loaded = {value.split(":")[0] for _, key, value in directives(CONTROL.read_text()) if key == "LoadCredential"}
    named = {value.rpartition("/")[2] for value in given.values() if value.startswith("${CREDENTIALS_DIRECTORY}/")}
    assert loaded == named
