"""`RetryTransport` under real clients of httpx and httpx2, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headgate.client import RetryOptions, RetryReport
from tests.client.libraries import Library, report
from tests.client.limited_app import PATIENCE_S, Served

AT_ONCE = {"retry-after": "0"}
REFUSAL = (429, AT_ONCE, b"refused")


def test_every_request_gets_through_and_the_caller_sees_no_429(served: Served, library: Library) -> None:
    url = served.limited("10/second")
    with library.client() as client, ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(lambda _: client.get(url).status_code, range(25)))
    assert statuses == [200] * 25
    assert served.app.answered[200] == 25


def test_a_client_that_asks_one_by_one_is_not_refused_at_all(served: Served, library: Library) -> None:
    url = served.limited("5/second")
    with library.client() as client:
        answers = [client.get(url) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [200] * 12
    assert served.app.answered == {200: 12}


def test_without_pacing_it_is_refused_and_still_gets_through(served: Served, library: Library) -> None:
    url = served.limited("2/second")
    with library.client(RetryOptions(pace=False)) as client:
        answers = [client.get(url) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert sum(report(answer).attempts for answer in answers) == 4 + served.app.answered[429]


def test_an_empty_budget_hands_the_refusal_over_with_its_body(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL] * 10
    with library.client(RetryOptions(budget_max=2, budget_per_s=0.0, budget_part=0.0)) as client:
        first, second = (client.get(f"{served.url}/script") for _ in range(2))
    assert (first.status_code, first.text, report(first).attempts) == (429, "refused", 3)
    assert report(first).gave_up == "budget"
    assert report(second) == RetryReport(1, report(second).waited_s, "budget")


def test_a_wait_past_the_maximum_is_handed_over_without_sleeping(served: Served, library: Library) -> None:
    served.app.script = [(429, {"retry-after": "61"}, b"later")]

    def never(seconds: float) -> None:
        raise AssertionError(f"slept {seconds} s")

    with library.client(sleep=never) as client:
        answer = client.get(f"{served.url}/script")
    assert (answer.status_code, answer.text, report(answer)) == (429, "later", RetryReport(1, 0.0, "wait"))


def test_refused_connections_are_used_again(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL] * 3
    with library.client(connections_max=1) as client:
        assert report(client.get(f"{served.url}/script")).attempts == 4
    assert len(served.app.peers) == 1


def test_a_refusal_with_an_enormous_body_is_cut_off_and_leaks_no_connection(served: Served, library: Library) -> None:
    served.app.script = [(429, AT_ONCE, b"x" * 4_000_000)] * 2
    with library.client(connections_max=1) as client:
        answer = client.get(f"{served.url}/script")
        assert (answer.status_code, report(answer).attempts) == (200, 3)
    assert len(served.app.peers) == 3


def test_a_body_of_bytes_is_sent_again_whole(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL] * 2
    with library.client() as client:
        answer = client.put(f"{served.url}/script", content=b"all of it")
    assert answer.status_code == 200
    assert served.app.bodies == [b"all of it"] * 3


def test_a_body_that_is_a_stream_is_sent_once(served: Served, library: Library) -> None:
    def parts() -> Iterator[bytes]:
        yield from (b"once", b" only")

    served.app.script = [REFUSAL]
    with library.client() as client:
        answer = client.put(f"{served.url}/script", content=parts())
    assert (answer.status_code, report(answer).gave_up) == (429, "body")
    assert served.app.bodies == [b"once only"]


def test_a_post_is_sent_again_only_with_a_key_or_when_asked(served: Served, library: Library) -> None:
    url = f"{served.url}/script"
    with library.client() as client:
        served.app.script = [REFUSAL]
        assert report(client.post(url, json={})).gave_up == "method"
        served.app.script = [REFUSAL]
        assert client.post(url, json={}, headers={"Idempotency-Key": "1"}).status_code == 200
    served.app.script = [REFUSAL]
    with library.client(RetryOptions(methods={"POST"})) as client:
        assert client.post(url, json={}).status_code == 200


def test_a_streamed_answer_is_left_to_the_caller(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL, (200, {}, b"y" * 300_000)]
    with library.client() as client, client.stream("GET", f"{served.url}/script") as answer:
        assert not answer.is_stream_consumed
        assert sum(len(chunk) for chunk in answer.iter_bytes()) == 300_000


def test_it_may_be_mounted_for_some_addresses_only(served: Served, library: Library) -> None:
    served.app.script = [REFUSAL]
    with library.http.Client(mounts={served.url: library.ours.RetryTransport()}, timeout=PATIENCE_S) as client:
        assert client.get(f"{served.url}/script").status_code == 200
    served.app.script = [REFUSAL]
    with library.http.Client(
        mounts={"http://elsewhere.test": library.ours.RetryTransport()}, timeout=PATIENCE_S
    ) as client:
        assert client.get(f"{served.url}/script").status_code == 429


def test_any_transport_can_be_wrapped_and_its_errors_pass(library: Library) -> None:
    def answer(request: Any) -> Any:
        if request.url.path == "/broken":
            raise library.http.ConnectError("no")
        return library.http.Response(200, text="mine")

    transport = library.ours.RetryTransport(library.http.MockTransport(answer))
    with library.http.Client(transport=transport) as client:
        assert client.get("http://api.test/").text == "mine"
        with pytest.raises(library.http.ConnectError):
            client.get("http://api.test/broken")
    assert [origin.unknown_in_flight for origin in transport._conduct.origins.all()] == [0]


def test_leaving_the_client_closes_the_transport_within(library: Library) -> None:
    class Watched(library.http.MockTransport):  # type: ignore[misc,name-defined]
        closed = 0

        def close(self) -> None:
            self.closed += 1

    inner = Watched(lambda _: library.http.Response(200))
    with library.http.Client(transport=library.ours.RetryTransport(inner)) as client:
        client.get("http://api.test/")
    assert inner.closed == 1
