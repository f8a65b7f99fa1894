"""`RetryAdapter` in a real session of requests, against a real server."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import requests

from headgate.client import RetryOptions, RetryReport
from headgate.client.requests import RetryAdapter, report_of
from tests.client.limited_app import PATIENCE_S, Served

REFUSAL = (429, {"retry-after": "0"}, b"refused")


def session_of(options: RetryOptions | None = None) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", RetryAdapter(options))
    return session


def report(response: requests.Response) -> RetryReport:
    found = report_of(response)
    assert found is not None
    return found


def test_every_request_gets_through_and_the_caller_sees_no_429(served: Served) -> None:
    url = served.limited("10/second")
    with session_of() as session, ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(lambda _: session.get(url, timeout=PATIENCE_S).status_code, range(25)))
    assert statuses == [200] * 25
    assert served.app.answered[200] == 25


def test_an_empty_budget_hands_the_refusal_over_with_its_body(served: Served) -> None:
    served.app.script = [REFUSAL] * 10
    with session_of(RetryOptions(budget_max=1, budget_per_s=0.0, budget_part=0.0)) as session:
        answer = session.get(f"{served.url}/script", timeout=PATIENCE_S)
    assert (answer.status_code, answer.text) == (429, "refused")
    assert (report(answer).attempts, report(answer).gave_up) == (2, "budget")


def test_refused_connections_are_used_again(served: Served) -> None:
    served.app.script = [REFUSAL] * 3
    with session_of() as session:
        assert report(session.get(f"{served.url}/script", timeout=PATIENCE_S)).attempts == 4
    assert len(served.app.peers) == 1


def test_a_refusal_with_an_enormous_body_is_cut_off(served: Served) -> None:
    served.app.script = [(429, {"retry-after": "0"}, b"x" * 4_000_000)]
    with session_of() as session:
        assert report(session.get(f"{served.url}/script", timeout=PATIENCE_S)).attempts == 2
    assert len(served.app.peers) == 2


def test_a_body_of_bytes_is_sent_again_and_a_stream_is_not(served: Served) -> None:
    def parts() -> Iterator[bytes]:
        yield b"once"

    with session_of() as session:
        served.app.script = [REFUSAL]
        answer = session.put(f"{served.url}/script", data=b"all", timeout=PATIENCE_S)
        assert (answer.status_code, served.app.bodies) == (200, [b"all", b"all"])
        served.app.bodies, served.app.script = [], [REFUSAL]
        answer = session.put(f"{served.url}/script", data=parts(), timeout=PATIENCE_S)
        assert (answer.status_code, served.app.bodies) == (429, [b"once"])
        assert report(answer).gave_up == "body"


def test_a_session_survives_pickling(served: Served) -> None:
    options = RetryOptions(attempts_max=2)
    session = pickle.loads(pickle.dumps(session_of(options)))
    assert session.get_adapter(served.url).options == options
    served.app.script = [REFUSAL] * 5
    with session:
        assert report(session.get(f"{served.url}/script", timeout=PATIENCE_S)).attempts == 2


def test_the_adapters_own_arguments_are_taken() -> None:
    adapter = RetryAdapter(RetryOptions(), pool_maxsize=3)
    assert adapter._pool_maxsize == 3  # type: ignore[attr-defined]
    assert report_of(requests.Response()) is None
