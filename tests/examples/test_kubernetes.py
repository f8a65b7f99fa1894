"""The manifests: valid to Kubernetes, consistent with each other, and true to what the node really serves."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from headgate import __version__
from headgate.settings import Settings
from tests.examples.command import PATIENCE_S, pairs, running
from tests.examples.manifests import FOLDER, Manifest, Pod, headgate_pods, manifests, of_kind, pods, selected
from tests.proxies import binaries
from tests.proxies.example import EXAMPLES

KUBERNETES = kubernetes_validate.latest_version()
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
README = (FOLDER / "README.md").read_text()


def container_of(pod: Pod) -> dict[str, Any]:
    assert pod.headgate is not None
    return pod.headgate


@pytest.mark.parametrize("manifest", manifests(), ids=str)
def test_a_manifest_is_valid_to_kubernetes(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest.body, KUBERNETES, strict=True)


def test_the_validator_would_find_a_misspelled_field() -> None:
    wrong = copy.deepcopy(next(of_kind("Deployment")).body)
    wrong["spec"]["template"]["spec"]["containers"][0]["resource"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


@pytest.mark.parametrize("pod", pods(), ids=str)
def test_a_pod_has_the_volumes_and_the_ports_its_containers_name(pod: Pod) -> None:
    volumes = {volume["name"] for volume in pod.spec.get("volumes", [])} | pod.claims
    for container in pod.containers:
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
        probed = [container[probe] for probe in PROBES if probe in container]
        named = [probe[how]["port"] for probe in probed for how in ("httpGet", "tcpSocket") if how in probe]
        assert set(named) <= {port["name"] for port in container["ports"]}


@pytest.mark.parametrize("pod", pods(), ids=str)
def test_what_a_pod_refers_to_is_in_the_manifests_or_made_by_a_command_of_the_readme(pod: Pod) -> None:
    made = {manifest.name for manifest in of_kind("ConfigMap")}
    volumes = pod.spec.get("volumes", [])
    maps = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    secrets = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    for name in maps:
        assert name in made or f"kubectl create configmap {name} " in README
    for name in secrets:
        assert f"kubectl create secret generic {name} " in README


def test_services_policies_and_autoscalers_find_their_pods_and_ports() -> None:
    for service in of_kind("Service"):
        (pod,) = selected(service.body["spec"]["selector"])
        assert {port["targetPort"] for port in service.body["spec"]["ports"]} <= pod.port_names.keys()
    for policy in of_kind("NetworkPolicy"):
        (pod,) = selected(policy.body["spec"]["podSelector"]["matchLabels"])
        opened = {port["port"] for rule in policy.body["spec"]["ingress"] for port in rule["ports"]}
        assert opened <= pod.port_names.keys()
    for scaler in of_kind("HorizontalPodAutoscaler"):
        assert scaler.body["spec"]["scaleTargetRef"]["name"] in {manifest.name for manifest in of_kind("Deployment")}
    for budget in of_kind("PodDisruptionBudget"):
        assert selected(budget.body["spec"]["selector"]["matchLabels"])


def test_only_pods_that_may_reach_the_store_run_headgate() -> None:
    assert {str(pod) for pod in selected({"headgate-store-client": "true"})} == {str(pod) for pod in headgate_pods()}


@pytest.mark.parametrize("pod", headgate_pods(), ids=str)
def test_headgate_runs_unprivileged_with_a_share_of_its_own(pod: Pod) -> None:
    container = container_of(pod)
    security = container["securityContext"]
    assert pod.spec["securityContext"]["runAsNonRoot"] is True
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"].keys() == {"requests", "limits"}
    assert all(share.keys() == {"cpu", "memory"} for share in container["resources"].values())
    assert container["image"].endswith(f"/headgate:{__version__}")


@pytest.mark.parametrize("pod", headgate_pods(), ids=str)
def test_the_node_takes_its_arguments_and_answers_its_probes_where_they_look(pod: Pod, tmp_path: Path) -> None:
    container = container_of(pod)
    assert container["command"] == ["headgate", "node"]
    given = pairs(container["args"])
    (rules,) = [manifest.body["data"]["rules.yaml"] for manifest in of_kind("ConfigMap")]
    with running(container["args"], rules, tmp_path) as node:
        for probe in (container[name] for name in PROBES):
            assert probe["httpGet"]["port"] == "admin"
            assert node.status("admin", probe["httpGet"]["path"]) == 200
        assert {door for door in ("http", "grpc", "uds", "admin") if given.get(f"--{door}")} == node.ready.keys() & {
            "http",
            "grpc",
            "uds",
            "admin",
        }
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, port in ports.items():
        assert given[f"--{name}"] == f"0.0.0.0:{port}"


@pytest.mark.parametrize("pod", headgate_pods(), ids=str)
def test_the_paths_of_the_arguments_are_mounted(pod: Pod) -> None:
    container = container_of(pod)
    mounted = [f"{mount['mountPath']}/" for mount in container["volumeMounts"]]
    paths = [value for value in pairs(container["args"]).values() if value.startswith("/")]
    assert paths
    assert all(any(path.startswith(mount) for mount in mounted) for path in paths)


def test_the_readmes_command_makes_a_configuration_envoy_takes(tmp_path: Path) -> None:
    envoy = binaries.envoy().require()
    (command,) = re.findall(r"^\$ (sed .*?> envoy.yaml)$", README, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "kubernetes"
    shutil.copytree(EXAMPLES / "envoy", tmp_path / "envoy")
    folder.mkdir()
    subprocess.run(["sh", "-c", command], cwd=folder, timeout=PATIENCE_S, check=True)
    made = (folder / "envoy.yaml").read_text()
    assert "socket_address: {address: 0.0.0.0, port_value: 8000}" in made
    assert "\n                    pipe: {path: /run/headgate/node.sock}" in made
    validate: list[str | Path] = [envoy, "--mode", "validate", "-c", folder / "envoy.yaml", "--use-dynamic-base-id"]
    subprocess.run(validate, timeout=PATIENCE_S, check=True, capture_output=True)


@pytest.mark.parametrize("pod", headgate_pods(), ids=str)
def test_a_pod_is_given_the_time_to_drain(pod: Pod) -> None:
    pause_s = container_of(pod).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod.spec["terminationGracePeriodSeconds"] > pause_s + Settings().drain_timeout_s
