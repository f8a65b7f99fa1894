"""Everything that is looked at, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from headgate.doctor.finding import Finding, note
from headgate.doctor.gather import certificates, files, identity, listeners, node, process, rules, sources, upstreams
from headgate.doctor.gather.bounded import within
from headgate.doctor.gather.node import NodeAddress, NodeFacts
from headgate.doctor.gather.rules import RulesFacts
from headgate.doctor.gather.store import look_at_store
from headgate.doctor.gather.store_url import MEMORY
from headgate.doctor.judge.files import judge_certificate, judge_secret, judge_snapshot
from headgate.doctor.judge.identity import judge_identity
from headgate.doctor.judge.listeners import judge_doors, judge_proxies, judge_reach, judge_socket
from headgate.doctor.judge.node import judge_node
from headgate.doctor.judge.process import judge_process
from headgate.doctor.judge.rules import judge_gateway_rules, judge_rules
from headgate.doctor.judge.sources import judge_fleet, judge_sources
from headgate.doctor.judge.store import judge_store
from headgate.doctor.judge.upstreams import judge_upstreams
from headgate.feed.places import is_feed
from headgate.setting_lists import split
from headgate.settings import Settings
from headgate.upkeep.feed.staleness import stale_after_s

CONTROL_S = 15.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a control plane told: its fleet, and its rules; or why it did not."""

    fleet: Mapping[str, Any] | None = None
    rules: RulesFacts | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """`name` is what is looked at, for people who wait."""

    name: str
    look: Callable[[], Iterable[Finding]]

    def findings(self) -> list[Finding]:
        """Never raises: a look that fails is a finding, and the others go on."""
        try:
            return list(self.look())
        except Exception as error:
            seen = f"{type(error).__name__}: {error}"
            return [note("doctor.failed", f"Looking at {self.name} failed", seen, "please report this as a bug")]


class Examination:
    """One look at a set-up. `ask_control` asks the control plane that was named, if one was."""

    def __init__(
        self, settings: Settings, named: NodeAddress | None = None, ask_control: Callable[[], Told] | None = None
    ) -> None:
        self._settings = settings
        self._named = named
        self._ask_control = ask_control
        self._is_gateway = settings.upstream is not None
        self._now = datetime.now(UTC)

    def steps(self) -> list[Step]:
        steps = [
            Step("the store", self._look_at_store),
            Step("the rules", self._look_at_rules),
            Step("the running node", self._look_at_node),
            Step("addresses and sockets", self._look_at_listeners),
            Step("secrets and certificates", self._look_at_files),
            Step("how callers are known", lambda: judge_identity(identity.look_at_identity(self._settings))),
        ]
        if self._is_gateway:
            steps.append(Step("the upstreams", self._look_at_upstreams))
        if self._is_fed:
            steps.append(Step("where rules come from", self._look_at_sources))
        if self._ask_control is not None:
            steps.append(Step("the control plane", lambda: judge_fleet(self._told.fleet, self._told.error)))
        return [*steps, Step("this process", self._look_at_process)]

    @property
    def _is_fed(self) -> bool:
        return self._settings.rules is not None and is_feed(self._settings.rules)

    @cached_property
    def _told(self) -> Told:
        assert self._ask_control is not None
        return within(self._ask_control, CONTROL_S) or Told(error="no answer in time")

    @cached_property
    def _rules(self) -> RulesFacts | None:
        own = rules.look_at_rules(self._settings)
        if own is None and self._ask_control is not None:
            return self._told.rules
        return own

    @cached_property
    def _node(self) -> NodeFacts | None:
        address = self._named or node.address_in(self._settings, is_gateway=self._is_gateway)
        return None if address is None else node.look_at_node(address)

    def _look_at_store(self) -> Iterator[Finding]:
        yield from judge_store(look_at_store(self._settings.store), self._settings.store_deadline_ms)

    def _look_at_rules(self) -> Iterator[Finding]:
        found = self._rules
        if found is None:
            return
        yield from judge_rules(found, now=self._now, is_shared=not self._settings.store.startswith(MEMORY))
        if self._is_gateway:
            yield from judge_gateway_rules(found, knows_callers=identity.is_set_up(self._settings))

    def _look_at_node(self) -> Iterator[Finding]:
        if self._node is not None:
            polls = self._settings.rules is not None and "+poll:" in self._settings.rules
            stale_s = stale_after_s(self._settings.feed_poll_s if polls else 0.0)
            count = None if self._rules is None else self._rules.count
            yield from judge_node(self._node, is_named=self._named is not None, stale_s=stale_s, rules=count)

    def _look_at_listeners(self) -> Iterator[Finding]:
        doors = listeners.look_at_doors(self._settings)
        # Of one that was named elsewhere nothing is known of these addresses.
        is_running = self._named is None and self._node is not None and self._node.error is None
        yield from judge_doors(doors, self._settings, is_gateway=self._is_gateway)
        yield from judge_reach(doors, is_running=is_running)
        if self._settings.uds is not None:
            yield from judge_socket(files.look_at_socket(self._settings.uds))
        yield from judge_proxies(self._settings.trusted_proxies)

    def _look_at_files(self) -> Iterator[Finding]:
        settings = self._settings
        for secret in files.look_at_secrets(settings):
            yield from judge_secret(secret)
        config = files.look_at_config(settings)
        if config is not None:
            yield from judge_secret(config)
        keys = {"tls_cert": settings.tls_key}
        for name in ("tls_cert", "tls_client_ca", "upstream_ca"):
            path = getattr(settings, name)
            if path is not None:
                yield from judge_certificate(certificates.look_at_certificate(name, path, keys.get(name)), self._now)

    def _look_at_upstreams(self) -> Iterator[Finding]:
        found = upstreams.look_at_upstreams(self._settings.upstream or "", self._settings.upstream_ca)
        yield from judge_upstreams(found, listeners.doors_of(self._settings))

    def _look_at_sources(self) -> Iterator[Finding]:
        settings = self._settings
        found = sources.look_at_sources(settings.rules or "")
        yield from judge_sources(found, has_key=settings.feed_key_file is not None)
        if settings.feed_snapshot is not None:
            yield from judge_snapshot(files.look_at_snapshot(settings.feed_snapshot))

    def _look_at_process(self) -> Iterator[Finding]:
        upstream = self._settings.upstream_connections * len(split(self._settings.upstream))
        yield from judge_process(process.look_at_process(), self._settings.max_connections + upstream)
