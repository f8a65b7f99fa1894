"""The control plane's manifest: its command is taken by the real one, which answers its probes where they look."""

from __future__ import annotations

import json
import os
import ssl
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
import trustme

from headgate import __version__
from headgate.feed.places import is_feed
from headgate.upkeep.feed.urls import make_sources
from tests.backup.page import options
from tests.examples.command import PATIENCE_S, START_TIMEOUT_S, pairs
from tests.examples.manifests import Pod, of_kind, pods
from tests.servers.process import Process
from tests.servers.waiting import wait_for

(POD,) = [pod for pod in pods() if pod.owner.name == "headgate-control"]
(CONTROL,) = POD.containers
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
# What its server takes to finish requests under way.
END_S = 10


def pod_named(name: str) -> Pod:
    (pod,) = [pod for pod in pods() if pod.owner.name == name]
    return pod


def test_it_runs_twice_unprivileged_with_time_to_end() -> None:
    assert POD.owner.body["spec"]["replicas"] == 2
    assert POD.spec["securityContext"]["runAsNonRoot"] is True
    security = CONTROL["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert CONTROL["image"].endswith(f"/headgate:{__version__}")
    pause_s = CONTROL["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD.spec["terminationGracePeriodSeconds"] > pause_s + END_S


def test_the_paths_of_its_arguments_are_mounted_with_the_keys_they_name() -> None:
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTROL["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"] for volume in POD.spec["volumes"] if "secret" in volume}
    for path in (Path(value) for value in pairs(CONTROL["args"]).values() if value.startswith("/")):
        secret = secrets[mounts[str(path.parent)]]
        assert path.name in {item["path"] for item in secret.get("items", [])} | {"tls.crt", "tls.key"}


def test_the_control_plane_takes_its_arguments_and_answers_its_probes(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    (tmp_path / "feed.key").write_text("5d" * 32)
    assert CONTROL["command"] == ["headgate", "control"]
    given = pairs(CONTROL["args"])
    (port,) = [port["containerPort"] for port in CONTROL["ports"] if port["name"] == "control"]
    assert given["--control"] == f"0.0.0.0:{port}"
    local = {"--control": "127.0.0.1:0", "--regions": "here=redis://127.0.0.1:1"}
    flags = [f"{flag}={local.get(flag, _here(value, tmp_path))}" for flag, value in given.items()]
    ready = tmp_path / "ready.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    (variable,) = [entry["name"] for entry in CONTROL["env"]]
    environment[variable] = f"sqlite:///{tmp_path}/control.db"
    command = [sys.executable, "-m", "headgate", "control", *flags, "--ready-file", str(ready)]
    process = Process(command, tmp_path, environment)
    try:
        wait_for("a ready control plane", ready.exists, START_TIMEOUT_S, process.log_tail)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        url = f"https://{json.loads(ready.read_text())['control']}"
        with httpx.Client(base_url=url, verify=trusting, trust_env=False, timeout=PATIENCE_S) as client:
            for probe in (CONTROL[name]["httpGet"] for name in PROBES):
                assert (probe["port"], probe["scheme"]) == ("control", "HTTPS")
                well = partial(_is_well, client, probe["path"])
                wait_for(probe["path"], well, PATIENCE_S, process.log_tail)
    finally:
        process.kill()


def test_nodes_follow_the_broker_and_the_control_plane_by_the_names_of_their_services() -> None:
    rules = pairs(pod_named("headgate-edge").containers[0]["args"])["--rules"]
    assert is_feed(rules)
    assert len(make_sources(rules, key=b"5d" * 32, poll_s=30.0)) == 2
    named = {
        f"{service.name}:{port['port']}" for service in of_kind("Service") for port in service.body["spec"]["ports"]
    }
    assert {url.partition("://")[2] for url in rules.split(",")} <= named
    regions = pairs(CONTROL["args"])["--regions"]
    assert regions.partition("=")[2] == rules.split(",")[0]


@pytest.mark.parametrize(("name", "value"), options("Brokers").items())
def test_the_broker_keeps_its_data_as_the_documentation_says(name: str, value: str) -> None:
    (broker,) = pod_named("headgate-broker").containers
    assert pairs(broker["args"])[f"--{name}"] == value


def _here(value: str, folder: Path) -> str:
    return str(folder / Path(value).name) if value.startswith("/") else value


def _is_well(client: httpx.Client, path: str) -> bool:
    return bool(client.get(path).status_code == 200)
