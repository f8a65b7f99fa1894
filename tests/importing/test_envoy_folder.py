"""A node that serves a folder of envoyproxy/ratelimit's, and goes on as the folder changes under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.errors import FileError
from headgate.limiter import Limiter
from headgate.upkeep.rules_file import RulesFile
from tests.grpc.client import Client, by
from tests.grpc.node_process import NodeProcess
from tests.integration.http_node import eventually


def configured(count: int, domain: str = "d") -> str:
    limit = f"{{unit: day, requests_per_unit: {count}}}"
    return f"domain: {domain}\ndescriptors: [{{key: k, detailed_metric: true, rate_limit: {limit}}}]\n"


def put(file: Path, text: str) -> None:
    """Whole or not at all: a look in between would see half of it."""
    hidden = file.with_name(f".{file.name}")
    hidden.write_text(text)
    hidden.rename(file)


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """As its RUNTIME_ROOT is laid out."""
    (tmp_path / "current" / "config").mkdir(parents=True)
    (tmp_path / "current" / "config" / "a.yaml").write_text(configured(3))
    return tmp_path / "current"


@pytest.fixture
def node(tmp_path: Path, runtime: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path, "--rules", str(runtime), "--rules-poll-s", "0.05") as started:
        yield started


def limit_of(client: Client, domain: str = "d") -> int | None:
    """What is allowed a day; None where nothing limits."""
    return client.ask(by(k="v", hits=0), domain=domain).statuses[0].limit


def test_a_folder_is_served_and_followed(node: NodeProcess, runtime: Path) -> None:
    client, config = node.client(), runtime / "config"
    assert limit_of(client) == 3
    put(config / "a.yaml", configured(4))
    eventually(lambda: limit_of(client) == 4)
    put(config / "b.yaml", configured(5, "e"))
    eventually(lambda: limit_of(client, "e") == 5)
    (config / "b.yaml").unlink()
    eventually(lambda: limit_of(client, "e") is None)
    assert limit_of(client) == 4
    [told] = [event for event in node.events() if event["event"] == "not all could be taken over"][:1]
    assert (told["places"], "detailed_metric" in told["what"]) == (1, True)


def test_a_broken_file_is_refused_whole_and_the_old_rules_go_on(node: NodeProcess, runtime: Path) -> None:
    client, config = node.client(), runtime / "config"
    assert limit_of(client) == 3
    put(config / "b.yaml", "domain: e\ndescriptors: [{key: k, rate_limit: {unit: moment}}]\n")
    error = eventually(lambda: node.admin("/readyz").json()["rules_error"])
    assert "b.yaml:2:37: `unit` must be one of second" in error
    put(config / "a.yaml", configured(4))
    eventually(lambda: node.log().count("rules refused; the old ones go on") == 2)
    assert (limit_of(client), limit_of(client, "e")) == (3, None)
    put(config / "b.yaml", configured(5, "e"))
    eventually(lambda: (limit_of(client), limit_of(client, "e")) == (4, 5))
    eventually(lambda: node.admin("/readyz").json()["rules_error"] is None)


class Swapped:
    """A folder as Kubernetes mounts a config map: files are links into a hidden one, which is swapped as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._swaps = 0

    def swap(self, **files: str) -> None:
        self._swaps += 1
        fresh = self.folder / f"..{self._swaps}"
        fresh.mkdir(parents=True)
        for name, text in files.items():
            (fresh / f"{name}.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.folder / "..data")
        for name in files:
            if not (self.folder / f"{name}.yaml").is_symlink():
                (self.folder / f"{name}.yaml").symlink_to(Path("..data") / f"{name}.yaml")


def test_swapped_links_are_noticed(tmp_path: Path) -> None:
    mounted, limiter = Swapped(tmp_path / "mounted"), Limiter()
    mounted.swap(a=configured(3))
    file = RulesFile(limiter, mounted.folder)
    file.load()
    assert (file.poll(), limiter.rule_count()) == (None, 1)
    mounted.swap(a=configured(3).replace("]", ", {key: other}]"))
    outcome = file.poll()
    assert outcome is not None
    assert (outcome.error, limiter.rule_count()) == (None, 2)
    mounted.swap(a=configured(3).replace("]", ", {key: other}]"))
    assert file.poll() is None, "the same once more is no change"


def test_the_root_may_be_a_link_that_is_set_to_another_folder(tmp_path: Path) -> None:
    for name, count in (("v1", 1), ("v2", 2)):
        (tmp_path / name / "config").mkdir(parents=True)
        extra = "".join(f", {{key: k{nth}}}" for nth in range(count))
        (tmp_path / name / "config" / "a.yaml").write_text(configured(3).replace("]", f"{extra}]"))
    root, limiter = tmp_path / "current", Limiter()
    root.symlink_to("v1")
    file = RulesFile(limiter, root)
    file.load()
    assert limiter.rule_count() == 2
    root.unlink()
    outcome = file.poll()
    assert outcome is not None
    assert outcome.error is not None, "a folder that is gone is no reason to drop its rules"
    assert limiter.rule_count() == 2
    root.symlink_to("v2")
    assert file.poll() is not None
    assert limiter.rule_count() == 3


def test_a_start_with_a_broken_folder_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules: []\n")
    with pytest.raises(FileError, match="a file of Headgate's own rules"):
        RulesFile(Limiter(), tmp_path).load()
