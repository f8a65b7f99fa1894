"""Secrets that others can read, certificates that end, and rules that could not be kept."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import datetime, timedelta

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.certificates import CertificateFacts
from headgate.doctor.gather.files import FileFacts, SnapshotFacts
from headgate.doctor.judge.shares import size

SOON = timedelta(days=30)
VERY_SOON = timedelta(days=7)
ROOM_BYTES = 256 * 2**20


def judge_secret(facts: FileFacts) -> Iterator[Finding]:
    where = f"{facts.setting}: {facts.path}"
    if facts.mode is None:
        yield problem(
            "files.unreadable",
            "A file that a node needs cannot be read",
            f"{where}: {facts.error}",
            "correct the setting, or let the node's user read it; looked at as the user who runs this command",
        )
    elif facts.mode & (stat.S_IROTH | stat.S_IWOTH):
        word = "written" if facts.mode & stat.S_IWOTH else "read"
        yield warning(
            "files.open",
            f"A secret can be {word} by every user of this machine",
            f"{where} has mode {facts.mode:04o}",
            "chmod 600 (or 640 with a group of its own)",
        )
    else:
        yield well("files.open", "A secret is kept from others", f"{where} has mode {facts.mode:04o}")


def judge_certificate(facts: CertificateFacts, now: datetime) -> Iterator[Finding]:
    where = f"{facts.setting}: {facts.path}"
    if facts.error is not None:
        yield problem(
            "files.certificate",
            "A certificate cannot be used",
            f"{where}: {facts.error}",
            "give a certificate and the key that belongs to it, both PEM",
        )
        return
    first, soonest = facts.ends[0], min(facts.ends)
    left = soonest - now
    which = "" if soonest == first else " (another one of its chain)"
    seen = f"{where} ends on {soonest:%Y-%m-%d}{which}"
    do = "renew it and put the new one into the same file: a node takes it over without a restart"
    if left <= timedelta(0):
        yield problem("files.certificate_ends", "A certificate has expired", seen, do)
    elif left <= VERY_SOON:
        yield warning("files.certificate_ends", "A certificate expires within a week", seen, do)
    elif left <= SOON:
        yield note("files.certificate_ends", "A certificate expires within a month", seen, do)
    else:
        yield well("files.certificate_ends", "A certificate is good for a while", seen)


def judge_snapshot(facts: SnapshotFacts) -> Iterator[Finding]:
    if not facts.is_writable:
        yield warning(
            "files.snapshot",
            "A node could not keep the rules it is sent",
            f"feed_snapshot {facts.path} cannot be written by this user",
            "let the node's user write there: with everything else away, a restart needs that file",
        )
    elif facts.free_bytes is not None and facts.free_bytes < ROOM_BYTES:
        yield warning(
            "files.snapshot",
            "There is little room for the rules that a node keeps",
            f"feed_snapshot {facts.path}: {size(facts.free_bytes)} free",
            "make room, or move feed_snapshot to another disk",
        )
    else:
        yield well("files.snapshot", "A node can keep the rules it is sent", f"feed_snapshot {facts.path}")
