"""Whether a node may have as many connections as its settings say."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.doctor.finding import Finding, note, warning, well
from headgate.doctor.gather.process import ProcessFacts

# Threads' own descriptors, files, connections to the store.
SPARE = 200


def judge_process(facts: ProcessFacts, connections: int) -> Iterator[Finding]:
    """`connections` are those of clients and upstreams together."""
    needed = connections + SPARE
    if facts.files_soft is None or facts.files_soft >= needed:
        shown = "any number of" if facts.files_soft is None else f"{facts.files_soft:,}"
        seen = f"{shown} files, {connections:,} connections"
        yield well("process.files", "There are files for every connection", seen)
        return
    hard = "unlimited" if facts.files_hard is None else f"{facts.files_hard:,}"
    # A node is often started elsewhere than where this is asked; what even root's word cannot mend is worse.
    is_hard = facts.files_hard is not None and facts.files_hard < needed
    yield (warning if is_hard else note)(
        "process.files",
        "A process may open fewer files here than the node may have connections",
        f"{facts.files_soft:,} files (at most {hard}), {connections:,} connections",
        f"raise it where the node is started (`ulimit -n {needed}`, `LimitNOFILE=`), or lower max_connections",
    )
