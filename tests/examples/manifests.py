"""The Kubernetes manifests of `examples/kubernetes`, taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.proxies.example import EXAMPLES

FOLDER = EXAMPLES / "kubernetes"


@dataclass(frozen=True)
class Manifest:
    file: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        kind: str = self.body["kind"]
        return kind

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    def __str__(self) -> str:
        return f"{self.file}-{self.kind}-{self.name}"


@dataclass(frozen=True)
class Pod:
    owner: Manifest
    spec: dict[str, Any]
    labels: dict[str, str]

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def port_names(self) -> dict[str, int]:
        ports = [port for container in self.containers for port in container.get("ports", [])]
        return {port["name"]: port["containerPort"] for port in ports}

    @property
    def claims(self) -> set[str]:
        """The volumes of its own that each pod is given."""
        return {claim["metadata"]["name"] for claim in self.owner.body["spec"].get("volumeClaimTemplates", [])}

    @property
    def headgate(self) -> dict[str, Any] | None:
        return next((container for container in self.containers if container["name"] == "headgate"), None)

    def __str__(self) -> str:
        return str(self.owner)


@cache
def manifests() -> tuple[Manifest, ...]:
    files = sorted(FOLDER.glob("*.yaml"))
    return tuple(Manifest(file.name, body) for file in files for body in yaml.safe_load_all(file.read_text()))


@cache
def pods() -> tuple[Pod, ...]:
    owners = [manifest for manifest in manifests() if manifest.kind in ("Deployment", "StatefulSet")]
    templates = [(owner, owner.body["spec"]["template"]) for owner in owners]
    return tuple(Pod(owner, template["spec"], template["metadata"]["labels"]) for owner, template in templates)


def headgate_pods() -> tuple[Pod, ...]:
    return tuple(pod for pod in pods() if pod.headgate is not None)


def of_kind(kind: str) -> Iterator[Manifest]:
    return (manifest for manifest in manifests() if manifest.kind == kind)


def selected(labels: dict[str, str]) -> list[Pod]:
    return [pod for pod in pods() if labels.items() <= pod.labels.items()]
