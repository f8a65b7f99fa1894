"""What is wrong with one server of a store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.store import ServerFacts
from headgate.doctor.gather.store_url import CLUSTER, ONE, RING
from headgate.doctor.judge.shares import percentile, size

OLDEST = (7, 0)
# From this version of its line on, a server does not run what a script must not do (CVE-2025-49844 and those with it).
SAFE_SCRIPTS = {
    "Redis": {(7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "Valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}
NEAR_FULL = 0.9
FULL = 0.99
NEAR_CLIENTS = 0.9
AHEAD_NOTE_S = 0.1
AHEAD_WARNING_S = 1.0
_CONFIG_TELLS = "maxmemory, appendfsync, cluster-require-full-coverage and min-replicas-to-write"


def judge_server(facts: ServerFacts, layout: str, deadline_ms: float, *, is_told: bool = False) -> Iterator[Finding]:
    """`is_told`: that this server cannot be used was told already, by the engine, which knows why."""
    if facts.error is not None:
        if not is_told:
            yield problem(
                "store.away",
                "A server of the store cannot be asked",
                f"{facts.place.name}: {facts.error}",
                "start it, or correct the setting `store`; until then each rule's on_store_failure decides",
            )
        return
    yield from _judge_version(facts)
    yield from _judge_role(facts, layout)
    yield from _judge_eviction(facts)
    yield from _judge_room(facts)
    yield from _judge_writing(facts)
    yield from _judge_keeping(facts, layout)
    yield from _judge_config(facts, layout)
    yield from _judge_latency(facts, deadline_ms)
    yield from _judge_clock(facts)


def _judge_version(facts: ServerFacts) -> Iterator[Finding]:
    name, text = ("Valkey", facts.info["valkey_version"]) if "valkey_version" in facts.info else ("Redis", "")
    text = text or facts.info.get("redis_version", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", text)[:3])
    seen = f"{facts.place.name} is {name} {text or 'of a version it does not tell'}"
    if len(numbers) < 2:
        yield note("store.version", "The store does not tell its version", seen, "Headgate needs Redis 7.0, or Valkey")
        return
    if name == "Redis" and numbers[:2] < OLDEST:
        yield problem("store.version", "The store is too old", seen, "use Redis 7.0 or newer, or any Valkey")
        return
    lines = SAFE_SCRIPTS[name]
    line = (numbers[0], numbers[1])
    patch = numbers[2] if len(numbers) > 2 else 0
    is_unsafe = patch < lines[line] if line in lines else line < max(lines)
    if is_unsafe:
        yield note(
            "store.scripts_unsafe",
            "This version lets whoever may run scripts take over the server",
            seen,
            "update it (CVE-2025-49844), unless your distribution has mended it under the same number",
        )
        return
    yield well("store.version", "The store is of a version that is fit", seen)


def _judge_role(facts: ServerFacts, layout: str) -> Iterator[Finding]:
    is_cluster = facts.info.get("cluster_enabled") == "1"
    if facts.info.get("loading") == "1":
        yield problem(
            "store.loading",
            "The server is still loading its data",
            facts.place.name,
            "wait until it is done; until then on_store_failure decides",
        )
    if facts.info.get("role") == "slave" and not (is_cluster and layout == CLUSTER):
        link = facts.info.get("master_link_status", "unknown")
        yield problem(
            "store.replica",
            "The store is a replica, which takes no writes",
            f"{facts.place.name}; its link to the primary is {link}",
            "name the primary in the setting `store`, or use redis+sentinel:// to have it found",
        )
    if is_cluster and layout == ONE:
        yield problem(
            "store.is_cluster",
            "The server is one of a cluster",
            facts.place.name,
            "use redis+cluster:// in the setting `store`: as redis:// it answers for its own slots only",
        )
    if not is_cluster and layout == CLUSTER:
        yield problem(
            "store.is_no_cluster",
            "The server is not part of a cluster",
            facts.place.name,
            "use redis:// in the setting `store`, or redis+ring:// for several independent servers",
        )


def _judge_eviction(facts: ServerFacts) -> Iterator[Finding]:
    policy = _config(facts, "maxmemory-policy", "maxmemory_policy")
    if policy is None:
        return
    evicted = _number(facts.info.get("evicted_keys"))
    limit = _number(_config(facts, "maxmemory", "maxmemory"))
    if policy == "noeviction":
        yield well("store.evicts", "The store never evicts counters", f"{facts.place.name}: maxmemory-policy {policy}")
        return
    do = "set `maxmemory-policy noeviction` (`CONFIG SET`, and in its file): with an evicted counter goes what was used"
    seen = f"{facts.place.name}: maxmemory-policy {policy}, maxmemory {size(limit) if limit else 'unlimited'}"
    if evicted:
        seen += f", {evicted:,} keys evicted since its start"
        yield problem("store.evicts", "The store evicts counters", seen, do)
    elif limit:
        yield warning("store.evicts", "The store would evict counters when its memory is full", seen, do)
    else:
        yield note("store.evicts", "The store would evict counters if it had a memory limit", seen, do)


def _judge_room(facts: ServerFacts) -> Iterator[Finding]:
    used, limit = _number(facts.info.get("used_memory")), _number(_config(facts, "maxmemory", "maxmemory"))
    if limit and used >= NEAR_FULL * limit:
        judge = problem if used >= FULL * limit else warning
        yield judge(
            "store.full",
            "The store's memory is nearly used up",
            f"{facts.place.name}: {size(used)} of {size(limit)}",
            "raise maxmemory, or add shards; when it is full, writes fail and on_store_failure decides",
        )
    clients, most = _number(facts.info.get("connected_clients")), _number(facts.info.get("maxclients"))
    if most and clients >= NEAR_CLIENTS * most:
        yield warning(
            "store.clients",
            "The server has nearly as many clients as it takes",
            f"{facts.place.name}: {clients:,} of {most:,}",
            "raise maxclients; a node holds only a few connections, so look who holds the others",
        )


def _judge_writing(facts: ServerFacts) -> Iterator[Finding]:
    """What makes a server refuse to write."""
    stops = facts.config is None or facts.config.get("stop-writes-on-bgsave-error", "yes") == "yes"
    saves = facts.config is None or facts.config.get("save") != ""
    failed = facts.info.get("rdb_last_bgsave_status", "ok") != "ok" and stops and saves
    if failed or facts.info.get("aof_last_write_status", "ok") != "ok":
        yield problem(
            "store.disk",
            "The server cannot save to its disk, and may refuse writes for it",
            facts.place.name,
            "make room on its disk; or, since counters need no disk, `CONFIG SET stop-writes-on-bgsave-error no`",
        )
    wanted = _number(_config(facts, "min-replicas-to-write", "") or _config(facts, "min-slaves-to-write", ""))
    good = _number(facts.info.get("min_slaves_good_slaves", facts.info.get("connected_slaves")))
    if wanted and good < wanted:
        yield problem(
            "store.too_few_replicas",
            "The server refuses writes because it has too few replicas",
            f"{facts.place.name}: {good} of the {wanted} that min-replicas-to-write asks for",
            "bring replicas back, or set min-replicas-to-write 0: counters do not need it",
        )


def _judge_keeping(facts: ServerFacts, layout: str) -> Iterator[Finding]:
    """What is lost with the server: worth knowing, and often as it should be."""
    is_aof = facts.info.get("aof_enabled") == "1"
    replicas = _number(facts.info.get("connected_slaves"))
    if is_aof and _config(facts, "appendfsync", "") == "always":
        yield warning(
            "store.fsync",
            "Every write waits for the disk",
            f"{facts.place.name}: appendfsync always",
            "set `appendfsync everysec`: a second of counters is worth less than every request's time",
        )
    if layout in (ONE, RING) and not replicas and facts.info.get("role") == "master":
        yield note(
            "store.no_replica",
            "No replica would take over",
            facts.place.name,
            "with the server go its counters; add a replica where that matters",
        )
    is_saved = is_aof or (facts.config or {}).get("save") != ""
    if facts.config is not None and not is_saved:
        yield note(
            "store.no_persistence",
            "Counters do not outlive the server",
            f"{facts.place.name} saves nothing",
            "quotas of a day or a month begin anew after a restart; switch saving on where that matters",
        )


def _judge_config(facts: ServerFacts, layout: str) -> Iterator[Finding]:
    if facts.config is None:
        yield note(
            "store.config_hidden",
            "The server does not tell its configuration",
            f"{facts.place.name} refuses CONFIG, as managed services and tight ACLs do",
            f"look at {_CONFIG_TELLS} where it is managed",
        )
        return
    if layout == CLUSTER and facts.config.get("cluster-require-full-coverage") == "yes":
        yield warning(
            "store.full_coverage",
            "One lost primary stops the whole cluster",
            f"{facts.place.name}: cluster-require-full-coverage yes",
            "set `cluster-require-full-coverage no`: then only the lost shard's keys are decided without the store",
        )


def _judge_latency(facts: ServerFacts, deadline_ms: float) -> Iterator[Finding]:
    if not facts.round_trips_ms:
        return
    half, most = percentile(facts.round_trips_ms, 0.5), percentile(facts.round_trips_ms, 0.99)
    seen = f"{facts.place.name}: {half:.2f} ms, 99% within {most:.2f} ms; the deadline is {deadline_ms:g} ms"
    do = "put the store nearer (same zone, same rack), or raise store_deadline_ms"
    if half >= deadline_ms:
        yield problem("store.latency", "The store is farther away than its deadline", seen, do)
    elif most >= deadline_ms:
        yield warning("store.latency", "Some answers of the store come after the deadline", seen, do)
    elif half > deadline_ms / 2:
        yield note("store.latency", "A round trip to the store takes more than half the deadline", seen, do)
    else:
        yield well("store.latency", "The store is near", seen)


def _judge_clock(facts: ServerFacts) -> Iterator[Finding]:
    if facts.ahead_s is None:
        return
    sure_s = abs(facts.ahead_s) - facts.doubt_s
    side = "ahead of" if facts.ahead_s > 0 else "behind"
    seen = f"{facts.place.name} is {abs(facts.ahead_s):.3f} s {side} this machine"
    do = "run NTP on both: counters go by the store's clock, but tokens and the end of blocks by this machine's"
    if sure_s > AHEAD_WARNING_S:
        yield warning("store.clock", "The clocks of the store and of this machine are apart", seen, do)
    elif sure_s > AHEAD_NOTE_S:
        yield note("store.clock", "The clocks of the store and of this machine are a little apart", seen, do)
    else:
        yield well("store.clock", "The clocks of the store and of this machine agree", seen)


def _config(facts: ServerFacts, name: str, in_info: str) -> str | None:
    """A setting of the server; INFO tells some of them to those who may not see the rest."""
    return (facts.config or {}).get(name) or facts.info.get(in_info)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
