"""What a running node complains about, and what it would if it could."""

from __future__ import annotations

from collections.abc import Iterator

from headgate import __version__
from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.node import NodeFacts

# Part of what a node did since its start; less is the odd hiccup.
OFTEN = 0.01
VERY_STALE_TIMES = 10
_OLD_GOES_ON = "correct it: the node goes on with what it had, and would not start with this"


def judge_node(facts: NodeFacts, *, is_named: bool, stale_s: float, rules: int | None) -> Iterator[Finding]:
    """`is_named`: somebody said that it is there. `stale_s`: from when on rules are stale. `rules`: how many a node
    with these settings would have, if that is known."""
    if facts.error is not None:
        if is_named:
            do = "start it, or name the address where it tells of its health (`--admin`, or `--http`)"
            yield problem("node.away", "The node does not answer", f"{facts.where}: {facts.error}", do)
        else:
            do = "name it with --node URL; without it neither its rules nor its figures were looked at"
            yield note("node.not_seen", "No running node was found", f"{facts.where}: {facts.error}", do)
        return
    yield from _judge_ready(facts, rules)
    yield from _judge_feed(facts, stale_s)
    yield from _judge_shards(facts)
    yield from _judge_decisions(facts)
    yield from _judge_bounds(facts)
    yield from _judge_upstreams(facts)


def _judge_ready(facts: NodeFacts, rules: int | None) -> Iterator[Finding]:
    ready = facts.ready
    if ready["ready"]:
        seen = f"{facts.where}: {ready.get('rules')} rules, version {ready.get('rules_version')}"
        yield well("node.ready", "The node is ready", seen)
    else:
        yield warning("node.ready", "The node is not ready", facts.where, "it is stopping; look again when it is back")
    for name, code, what in (
        ("rules_error", "node.rules_refused", "rules"),
        ("tls_error", "node.tls_refused", "certificate"),
        ("identity_error", "node.identity_refused", "keys of callers"),
    ):
        if ready.get(name):
            yield problem(code, f"The node refused its new {what}", _line(ready[name]), _OLD_GOES_ON)
    has = ready.get("rules")
    if rules is not None and not ready.get("rules_error") and not ready.get("feed") and has != rules:
        yield warning(
            "node.other_rules",
            "The node has other rules than these settings name",
            f"{facts.where} has {has} rules, the file makes {rules}",
            "the node was started with another file, or has not seen the change: look at its log, or send it SIGHUP",
        )
    versions = [labels.get("version") for labels, _ in facts.each("headgate_build_info")]
    if versions and __version__ not in versions:
        yield note(
            "node.version",
            "The node is of another version than this command",
            f"the node is {versions[0]}, this is {__version__}",
            "update the older one",
        )


def _judge_feed(facts: NodeFacts, stale_s: float) -> Iterator[Finding]:
    feed = facts.ready.get("feed")
    if not isinstance(feed, dict):
        return
    age_s = float(feed.get("stale_s") or 0)
    seen = (
        f"{facts.where}: position {feed.get('position')} from {feed.get('source')}, known as newest {age_s:.0f} s ago"
    )
    if age_s > stale_s:
        judge = problem if age_s > VERY_STALE_TIMES * stale_s else warning
        do = "look whether the control plane runs and whether its sources are reached; the last rules go on meanwhile"
        yield judge("node.stale", "It is not known whether the node's rules are the newest", seen, do)
    else:
        yield well("node.stale", "The node's rules are the newest", seen)
    if feed.get("error"):
        yield warning(
            "node.feed_error",
            "The node has trouble with a source of its rules",
            _line(feed["error"]),
            "another source stands in while there is one; mend the first",
        )
    if feed.get("refused"):
        yield warning(
            "node.entries_refused",
            "The node could not take over something it was sent",
            f"{feed['refused']} entries since its start",
            "`headgate fleet` and the node's log name them; the node may be older than the control plane",
        )


def _judge_shards(facts: NodeFacts) -> Iterator[Finding]:
    store = facts.ready.get("store")
    for shard in store.get("shards", []) if isinstance(store, dict) else []:
        name, requests, late = shard.get("name"), shard.get("requests", 0), shard.get("timeouts", 0)
        if shard.get("breaker") != "closed" or not shard.get("connected"):
            yield problem(
                "node.store_lost",
                "The node has lost a shard of the store",
                f"{name}: breaker {shard.get('breaker')}, {'' if shard.get('connected') else 'not '}connected",
                "start it, or open the way from the node to it; each rule's on_store_failure decides meanwhile",
            )
        if late and late > OFTEN * requests:
            yield warning(
                "node.store_slow",
                "The store answers the node too late too often",
                f"{name}: {late:,} of {requests:,} requests since the node's start",
                "put the store nearer, look at its load, or raise store_deadline_ms",
            )


def _judge_decisions(facts: NodeFacts) -> Iterator[Finding]:
    every = facts.total("headgate_decisions_total")
    for policy in ("open", "closed", "local"):
        count = facts.total("headgate_decisions_total", path=f"fallback_{policy}")
        if not count:
            continue
        often = count > OFTEN * every
        yield (warning if often else note)(
            "node.fallback",
            "Requests were decided without the store",
            f"{count:,.0f} of {every:,.0f} by on_store_failure {policy}, since the node's start",
            "look at the store's findings above; `headgate status` shows what happened when",
        )
    if facts.total("headgate_store_debts_forgotten_total"):
        yield note(
            "node.debts_forgotten",
            "Some of what passed while the store was away was never counted",
            f"{facts.total('headgate_store_debts_forgotten_total'):,.0f} admissions",
            "nothing to mend now; a shorter outage is counted in full",
        )


def _judge_bounds(facts: NodeFacts) -> Iterator[Finding]:
    """Figures that should be nought."""
    for name, code, title, do in (
        (
            "headgate_overflow_cells",
            "node.overflow",
            "The table of counters is full, and new clients share counters",
            "raise max_keys, or look who floods it; a shared counter only ever counts too much",
        ),
        (
            "headgate_store_overloads_total",
            "node.overload",
            "Requests were decided without the store because too many waited for it",
            "raise max_in_flight, or give the store more room",
        ),
        (
            "headgate_connections_refused_total",
            "node.connections",
            "Connections were turned away because all were taken",
            "raise max_connections, or look who holds them",
        ),
    ):
        if facts.total(name):
            yield warning(code, title, f"{facts.where}: {facts.total(name):,.0f}", do)


def _judge_upstreams(facts: NodeFacts) -> Iterator[Finding]:
    for labels, count in facts.each("headgate_upstream_failures_total"):
        if not count:
            continue
        upstream = labels.get("upstream", "")
        well_off = facts.total("headgate_upstream_responses_total", upstream=upstream)
        yield (warning if count > OFTEN * (count + well_off) else note)(
            "node.upstream_failures",
            "An upstream failed requests",
            f"{upstream}: {count:,.0f} by {labels.get('reason')}, beside {well_off:,.0f} responses",
            "look at the application behind it; clients were answered with 502, 503 or 504",
        )


def _line(text: object) -> str:
    return " ".join(str(text).split())[:500]
