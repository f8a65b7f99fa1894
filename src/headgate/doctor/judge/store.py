"""What is wrong with a store as a whole: its URL, its sentinels, its cluster; and each of its servers in `server`."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.store import ClusterFacts, SentinelFacts, ServerFacts, StoreFacts
from headgate.doctor.gather.store_url import CLUSTER, MEMORY, SENTINEL, StoreUrl
from headgate.doctor.judge import server

SLOTS = 16_384
SENTINELS_LEAST = 3
CLOCKS_APART_S = 1.0


def judge_store(facts: StoreFacts, deadline_ms: float) -> Iterator[Finding]:
    if facts.refusal is not None:
        yield problem(
            "store.refused",
            "A node cannot use this store",
            facts.refusal,
            "correct the setting `store`, or what the server asks for: a node ends at its start with this message",
        )
    if facts.url.layout == MEMORY:
        if facts.refusal is None:
            yield note(
                "store.memory",
                "Counters are in each node's own memory",
                "store is memory://",
                "several nodes each admit the whole limit; give them one --store to share it",
            )
        return
    yield from _judge_privacy(facts.url)
    if facts.url.layout == SENTINEL:
        yield from _judge_sentinels(facts)
    if facts.url.layout == CLUSTER:
        yield from _judge_cluster(facts)
    for one in facts.servers:
        is_told = facts.refusal is not None and one.place.name in facts.refusal
        yield from server.judge_server(one, facts.url.layout, deadline_ms, is_told=is_told)
    yield from _judge_shard_clocks(facts.servers)
    if facts.left_out:
        yield note(
            "store.left_out",
            "Not every server was looked at",
            f"{facts.left_out} more than {len(facts.servers)} servers",
            "ask with a store URL that names the others",
        )


def _judge_privacy(url: StoreUrl) -> Iterator[Finding]:
    away = [place.name for place in url.places if not place.is_local]
    if not away or url.is_tls:
        return
    shown = ", ".join(away)
    if url.login.password is not None:
        yield warning(
            "store.password_in_clear",
            "The store's password crosses the network in the clear",
            f"{shown} without TLS",
            "use rediss:// (rediss+cluster:// and the like), or a network that nobody else can read",
        )
    else:
        yield warning(
            "store.no_password",
            "The store is reached over the network with neither a password nor TLS",
            shown,
            "whoever reaches it can clear every counter: set an ACL user for Headgate, and use rediss://",
        )


def _judge_sentinels(facts: StoreFacts) -> Iterator[Finding]:
    sentinels = facts.sentinels
    for one in sentinels:
        if one.error is not None:
            yield warning(
                "store.sentinel_away",
                "A sentinel cannot be asked",
                f"{one.place.name}: {one.error}",
                "start it, or take it out of the setting `store`; too few of them cannot promote anybody",
            )
    told = [one for one in sentinels if one.error is None]
    knowing = [one for one in told if one.primary is not None]
    if not knowing:
        what = f"{len(told)} of {len(sentinels)} answer" if told else "none answers"
        yield problem(
            "store.no_primary",
            "No sentinel names a primary",
            f"{what}; asked for {facts.url.primary!r}",
            "look at the name after the slash in the setting `store`, and at the sentinels themselves",
        )
        return
    if len({one.primary for one in knowing}) > 1:
        named = ", ".join(f"{one.place.name} names {one.primary.name if one.primary else ''}" for one in knowing)
        yield problem(
            "store.split",
            "Sentinels name different primaries",
            named,
            "a fail-over is under way, or the network between them is cut: look again in a minute",
        )
    yield from _judge_quorum(knowing)


def _judge_quorum(knowing: list[SentinelFacts]) -> Iterator[Finding]:
    for one in knowing:
        if one.quorum_error is not None:
            yield problem(
                "store.no_quorum",
                "The sentinels are too few to promote a replica",
                f"{one.place.name}: {one.quorum_error}",
                "bring sentinels back until a majority sees each other: until then a lost primary stays lost",
            )
    state = knowing[0].state
    if "s_down" in state.get("flags", "") or "o_down" in state.get("flags", ""):
        yield problem(
            "store.primary_down",
            "The sentinels take the primary for dead",
            f"flags {state['flags']}",
            "look at the server, and at why no replica was promoted",
        )
    if state.get("num-slaves") == "0":
        yield warning(
            "store.no_replica_to_promote",
            "The primary has no replica that could be promoted",
            f"{knowing[0].place.name} knows none",
            "add a replica, or use redis:// and spare the sentinels",
        )
    sentinels = int(state.get("num-other-sentinels", "0")) + 1
    if sentinels < SENTINELS_LEAST:
        yield warning(
            "store.few_sentinels",
            "There are fewer than three sentinels",
            f"{sentinels}",
            "run three or more, on machines that do not fail together",
        )


def _judge_cluster(facts: StoreFacts) -> Iterator[Finding]:
    if facts.cluster is None:
        yield problem(
            "store.no_cluster",
            "No node of the cluster tells where its slots are",
            ", ".join(place.name for place in facts.url.places[:5]),
            "start them; a server that is no cluster is redis:// and not redis+cluster://",
        )
        return
    yield from _judge_slots(facts.cluster)
    for place, replicas in facts.cluster.replicas.items():
        if replicas == 0:
            yield note(
                "store.no_replica",
                "No replica would take over",
                place.name,
                "with the server go its counters; add a replica where that matters",
            )


def _judge_slots(cluster: ClusterFacts) -> Iterator[Finding]:
    state = cluster.info.get("cluster_state", "ok")
    failing = int(cluster.info.get("cluster_slots_fail", "0"))
    if state != "ok":
        yield problem(
            "store.cluster_down",
            "The cluster serves nothing",
            f"cluster_state is {state}; {failing} of {SLOTS} slots have no primary that answers",
            "bring the lost primary back or promote a replica; `cluster-require-full-coverage no` keeps the rest going",
        )
    elif failing:
        yield problem(
            "store.slots_lost",
            "A part of the cluster's slots has no primary that answers",
            f"{failing} of {SLOTS} slots",
            "bring the lost primary back or promote a replica; until then on_store_failure decides for its keys",
        )
    if cluster.slots < SLOTS:
        yield problem(
            "store.slots_missing",
            "Slots of the cluster belong to nobody",
            f"{SLOTS - cluster.slots} of {SLOTS}",
            "assign them (`redis-cli --cluster fix`); counters of those slots have no place to be",
        )


def _judge_shard_clocks(servers: tuple[ServerFacts, ...]) -> Iterator[Finding]:
    known = [(one.ahead_s, one.doubt_s, one.place.name) for one in servers if one.ahead_s is not None]
    if len(known) < 2:
        return
    first, last = min(known), max(known)
    apart_s = last[0] - first[0]
    if apart_s - first[1] - last[1] > CLOCKS_APART_S:
        yield warning(
            "store.clocks_apart",
            "The clocks of the shards are apart",
            f"{last[2]} is {apart_s:.1f} s ahead of {first[2]}",
            "run NTP on all of them: windows would jump when a slot moves from one to another",
        )
    else:
        yield well("store.clocks_apart", "The clocks of the shards agree", f"within {apart_s * 1000:.0f} ms")
