"""The rule sets the benchmarks share."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FIVE_LIMITS = 5
PATH = "/api/v1/search"
RULES_PER_ORG = 10
PLANS = 50  # orgs differ in what they bought, but not each from every other
FIVE_WINDOWS = ("minute", "hour", "day", "week", "month")
# No group of a log dies while a benchmark runs, and sixteen of its thirty-two fill half the limit.
LONG_LOG_WINDOWS = ("hour", "2 hours", "4 hours", "day", "week")
LONG_LOG_LIMIT = 320_000_000
LONG_LOG_GROUPS = 16

# One request's facts for the HTTP benchmarks; ###### is where the load generator puts the user's number.
HTTP_BODY = '{"user":"u######","tier":"free","org":"o17","ip":"198.51.100.7","path":"/api/v1/search","method":"GET"}'


def five_limit_rules() -> list[dict[str, Any]]:
    """Five rules with five different `by`, so that every request of the benchmarks meets all of them."""
    return [
        {"name": "by-user", "by": "user", "limit": "1000000000/hour"},
        {"name": "by-org", "by": "org", "limit": "1000000000/hour"},
        {"name": "by-ip", "by": "ip", "limit": "1000000000/hour"},
        {"name": "by-endpoint", "match": {"endpoint": PATH}, "by": "endpoint", "limit": "1000000000/hour"},
        {"name": "everyone", "by": "global", "limit": "1000000000/hour"},
    ]


def one_subject_rules(algorithm: str) -> list[dict[str, Any]]:
    """Five limits on the same subject, none of which ever refuses."""
    return [_rule_by("user", _roomy(FIVE_WINDOWS, algorithm))]


def long_log_rules() -> list[dict[str, Any]]:
    """Five sliding windows on the same subject, whose logs are filled by `LONG_LOG_GROUPS` checks of a group each."""
    return [_rule_by("user", [{"limit": f"{LONG_LOG_LIMIT}/{window}"} for window in LONG_LOG_WINDOWS])]


def three_subject_rules(algorithm: str) -> list[dict[str, Any]]:
    """Five limits, two for the user, two for the organisation and one for the address."""
    shares = {"user": FIVE_WINDOWS[:2], "org": FIVE_WINDOWS[2:4], "ip": FIVE_WINDOWS[4:]}
    return [_rule_by(by, _roomy(windows, algorithm)) for by, windows in shares.items()]


def _roomy(windows: Iterable[str], algorithm: str) -> list[dict[str, Any]]:
    """Limits that never refuse and that one hit keeps alive for a minute at least. A bucket is forgotten once it is
    empty again, so it has a large burst instead of a large rate."""
    text = "1/{} burst 1000000000" if algorithm == "gcra" else "1000000000/{}"
    return [{"limit": text.format(window), "algorithm": algorithm} for window in windows]


def _rule_by(by: str, limits: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": f"by-{by}", "by": by, "limit": limits}


def org_rules(org: int) -> str:
    """The ten rules of one organisation as JSON Lines: six shapes, three `by`."""
    base = (org % PLANS + 1) * 10
    name, match = f'{{"name":"org-{org}-', f'","match":{{"org":"o{org}"'
    by_user = f'}},"by":"user","limit":"{base}/second"}}\n'
    by_org = f'}},"by":"org","limit":"{base * 100}/second"}}\n'
    return (
        f"{name}ceiling{match}{by_org}"
        f'{name}free{match},"tier":"free"{by_org}'
        f'{name}pro{match},"tier":"pro"{by_org}'
        f'{name}search{match},"endpoint":"/api/v1/search"{by_user}'
        f'{name}orders{match},"endpoint":"/api/v1/orders/{{id}}"{by_user}'
        f'{name}login{match},"endpoint":"/api/v1/login","method":"POST"{by_user}'
        f'{name}upload{match},"endpoint":"/api/v1/files","method":"PUT"{by_user}'
        f'{name}reports{match},"endpoint":"/api/v1/reports","tier":"pro"{by_user}'
        f'{name}writes{match},"method":"POST"{by_user}'
        f'{name}api{match},"endpoint":"/api/v1/*"}},"by":["org","endpoint"],"limit":"{base * 50}/second"}}\n'
    )


def changed_search_rule(org: int, count: int) -> str:
    """The org's search rule at another limit, as `put_rule` takes it."""
    return (
        f'{{"name":"org-{org}-search","match":{{"org":"o{org}","endpoint":"{PATH}"}},'
        f'"by":"user","limit":"{count}/second"}}'
    )


def write_org_rules(path: Path, orgs: int) -> int:
    """Write the bulk file; returns its size in bytes."""

    def chunks() -> Iterator[str]:
        for start in range(0, orgs, 1000):
            yield "".join(map(org_rules, range(start, min(start + 1000, orgs))))

    with path.open("w") as file:
        file.writelines(chunks())
    return path.stat().st_size
