"""The examples of envoyproxy/ratelimit's README, case by case: imported, and answered as it says (SEMANTICS 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.importing.imported import Imported
from tests.importing.envoy_node import Asked, imported, serving

DAY_S = 86_400.0
ALL = 2**32 - 1

EXAMPLE_1 = """
    domain: mongo_cps
    descriptors:
      - {key: database, value: users, rate_limit: {unit: second, requests_per_unit: 500}}
      - {key: database, value: default, rate_limit: {unit: second, requests_per_unit: 500}}
"""
EXAMPLE_2 = """
    domain: messaging
    descriptors:
      - key: message_type
        value: marketing
        descriptors:
          - {key: to_number, rate_limit: {unit: day, requests_per_unit: 5}}
      - {key: to_number, rate_limit: {unit: day, requests_per_unit: 100}}
"""
EXAMPLE_3 = """
    domain: edge_proxy_per_ip
    descriptors:
      - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}
      - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
"""
EXAMPLE_4_FLAT = """
    domain: example4
    descriptors:
      - {key: key, value: value, rate_limit: {unit: second, requests_per_unit: 300}}
"""
EXAMPLE_4_NESTED = """
    domain: example4
    descriptors:
      - key: key
        value: value
        descriptors:
          - {key: subkey, rate_limit: {unit: second, requests_per_unit: 300}}
"""
EXAMPLE_5 = """
    domain: internal
    descriptors:
      - {key: ldap, rate_limit: {unlimited: true}}
      - {key: azure, rate_limit: {unit: minute, requests_per_unit: 100}}
"""
EXAMPLE_6 = """
    domain: example6
    descriptors:
      - key: service
        descriptors:
          - {key: user, value: user-a, rate_limit: {unit: second, requests_per_unit: 10}, shadow_mode: true}
          - {key: user, value: user-b, rate_limit: {unit: second, requests_per_unit: 20}}
"""
EXAMPLE_7 = """
    domain: example7
    descriptors:
      - key: key_1
        value: value_1
        descriptors:
          - key: user
            value: bkthomps
            rate_limit: {name: specific_limit, unit: second, requests_per_unit: 5}
      - key: key_2
        value: value_2
        descriptors:
          - key: user
            value: bkthomps
            rate_limit: {replaces: [{name: specific_limit}], unit: second, requests_per_unit: 10}
"""
EXAMPLE_8 = """
    domain: example8
    descriptors:
      - {key: key1, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
      - {key: key1, value: value1, rate_limit: {unit: minute, requests_per_unit: 20}}
"""
EXAMPLE_9 = """
    domain: example9
    descriptors:
      - {key: key1, value: value*, rate_limit: {unit: minute, requests_per_unit: 20}}
"""
EXAMPLE_10 = """
    domain: example10
    descriptors:
      - key: route
        value_to_metric: true
        descriptors:
          - key: http_method
            value_to_metric: true
            descriptors:
              - {key: subject_id, rate_limit: {unit: minute, requests_per_unit: 60}}
"""
EXAMPLE_10_WILDCARD = """
    domain: example10_wildcard
    descriptors:
      - key: user
        value_to_metric: true
        descriptors:
          - key: action
            value: read*
            value_to_metric: true
            descriptors:
              - {key: resource, rate_limit: {unit: minute, requests_per_unit: 100}}
"""
EXAMPLE_11 = """
    domain: example11
    descriptors:
      - key: files
        value: files/*
        share_threshold: true
        rate_limit: {unit: hour, requests_per_unit: 10}
      - key: files_no_share
        value: files_no_share/*
        share_threshold: false
        rate_limit: {unit: hour, requests_per_unit: 10}
"""
EXAMPLE_11_METRICS = """
    domain: example11_metrics
    descriptors:
      - key: route
        value: api/*
        share_threshold: true
        value_to_metric: true
        descriptors:
          - {key: method, rate_limit: {unit: minute, requests_per_unit: 60}}
"""


@pytest.fixture
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Imported:
    return imported(tmp_path, request.param)


@pytest.fixture
def node(found: Imported) -> Iterator[Asked]:
    domain = found.document["rules"][0]["match"]["descriptor_exact"]["domain"]
    with serving(found, domain) as asked:
        yield asked


def example(text: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("found", [text], indirect=True)


@example(EXAMPLE_1)
def test_1_each_value_has_its_own_limit_and_others_have_none(node: Asked) -> None:
    assert node.ask("database=users", hits=499).remaining == [1]
    assert node.admitted("database=users", of=3) == 1
    status = node.ask("database=default").statuses[0]
    assert (status.limit, status.unit, status.remaining) == (500, "SECOND", 499)
    other = node.ask("database=other", hits=501)
    assert (other.code, other.statuses[0].limit) == ("OK", None)
    node.clock.advance(1.0)
    assert node.ask("database=users").remaining == [499]


@example(EXAMPLE_1)
def test_1_another_domain_has_no_limits(node: Asked) -> None:
    assert node.ask("database=users", domain="other", hits=501).code == "OK"


@example(EXAMPLE_2)
def test_2_every_number_has_its_own_limit(node: Asked) -> None:
    marketing = "message_type=marketing,to_number={}"
    assert node.admitted(marketing.format(2061111111), of=7) == 5
    assert node.admitted(marketing.format(2062222222), of=7) == 5
    assert node.ask("to_number=2061111111", hits=100).code == "OK"
    assert node.ask("to_number=2061111111").code == "OVER_LIMIT"
    assert node.ask("to_number=2062222222").code == "OK"
    assert node.ask("message_type=receipt,to_number=2061111111", hits=101).code == "OK"
    assert node.ask("message_type=marketing", hits=101).code == "OK"


@example(EXAMPLE_2)
def test_2_a_call_with_two_descriptors_is_refused_if_either_is(node: Asked) -> None:
    both = ("message_type=marketing,to_number=2061111111", "to_number=2061111111")
    assert node.admitted(*both, of=5) == 5
    refused = node.ask(*both)
    assert (refused.code, refused.codes) == ("OVER_LIMIT", ["OVER_LIMIT", "OK"])
    assert node.ask("to_number=2061111111").code == "OK"


@example(EXAMPLE_3)
def test_3_a_value_goes_before_the_key_alone(node: Asked) -> None:
    assert node.admitted("remote_address=50.0.0.1", of=12) == 10
    assert node.admitted("remote_address=50.0.0.2", of=12) == 10
    assert node.admitted("remote_address=50.0.0.5", of=3) == 0
    node.clock.advance(DAY_S)
    refused = node.ask("remote_address=50.0.0.5")
    assert (refused.code, refused.codes) == ("OVER_LIMIT", ["OVER_LIMIT"])


@example(EXAMPLE_4_FLAT)
def test_4_a_deeper_descriptor_does_not_meet_a_shallow_limit(node: Asked) -> None:
    assert node.ask("key=value,subkey=subvalue", hits=301).code == "OK"
    assert node.ask("key=value", hits=301).code == "OVER_LIMIT"


@example(EXAMPLE_4_NESTED)
def test_4_a_descriptor_as_deep_as_the_limit_meets_it(node: Asked) -> None:
    assert node.ask("key=value,subkey=subvalue", hits=301).code == "OVER_LIMIT"
    assert node.ask("key=value", hits=301).code == "OK"


@example(EXAMPLE_5)
def test_5_what_is_unlimited_passes_with_all_there_is_left(node: Asked) -> None:
    free = node.ask("ldap=any", hits=1_000_000)
    assert (free.code, free.codes, free.remaining) == ("OK", ["OK"], [ALL])
    assert node.ask("azure=any", hits=100).remaining == [0]
    assert node.ask("ldap=any", "azure=any").codes == ["OK", "OVER_LIMIT"]
    assert node.ask("nobody=any").remaining == [0]


@example(EXAMPLE_6)
def test_6_a_limit_in_shadow_mode_never_refuses(node: Asked) -> None:
    assert node.admitted("service=auth-service,user=user-a", of=30) == 30
    assert node.admitted("service=auth-service,user=user-b", of=30) == 20


@example(EXAMPLE_7)
def test_7_a_limit_that_replaces_another_stands_in_for_it(node: Asked) -> None:
    first, second = "key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps"
    assert node.admitted(first, second, of=12) == 10
    # What was replaced was not spent.
    status = node.ask(first).statuses[0]
    assert (status.rule, status.remaining) == ("specific_limit", 4)
    assert node.admitted(first, of=6) == 4
    assert node.admitted(second, of=6) == 0
    node.clock.advance(1.0)
    assert node.admitted(second, of=12) == 10


@example(EXAMPLE_8)
def test_8_detailed_metrics_change_no_limit(node: Asked, found: Imported) -> None:
    assert node.admitted("key1=unspecified_value", of=12) == 10
    assert node.admitted("key1=unspecified_value2", of=12) == 10
    assert node.admitted("key1=value1", of=22) == 20
    assert [note.what.partition(":")[0] for note in found.notes if note.level == "cannot"] == ["`detailed_metric`"]


@example(EXAMPLE_9)
def test_9_each_value_that_begins_so_has_its_own_limit(node: Asked) -> None:
    assert node.admitted("key1=value_1", of=22) == 20
    assert node.admitted("key1=value_2", of=22) == 20
    assert node.ask("key1=other", hits=21).code == "OK"


@example(EXAMPLE_10)
def test_10_values_in_metrics_change_no_limit(node: Asked, found: Imported) -> None:
    for call in ("route=api,http_method=GET,subject_id=123", "route=web,http_method=POST,subject_id=456"):
        assert node.ask(call, hits=60).remaining == [0]
        assert node.ask(call).code == "OVER_LIMIT"
    assert [note.level for note in found.notes].count("cannot") == 2


@example(EXAMPLE_10_WILDCARD)
def test_10_a_beginning_may_stand_in_the_middle(node: Asked) -> None:
    assert node.ask("user=alice,action=readfile,resource=documents", hits=101).code == "OVER_LIMIT"
    assert node.ask("user=alice,action=write,resource=documents", hits=101).code == "OK"


@example(EXAMPLE_11)
def test_11_values_share_a_threshold_only_if_asked_to(node: Asked) -> None:
    assert node.admitted("files=files/a.pdf", of=5) == 5
    assert node.admitted("files=files/b.csv", of=5) == 5
    assert node.ask("files=files/c.txt").code == "OVER_LIMIT"
    assert node.admitted("files_no_share=files_no_share/a.pdf", of=12) == 10
    assert node.admitted("files_no_share=files_no_share/b.csv", of=12) == 10


@example(EXAMPLE_11_METRICS)
def test_11_what_is_shared_is_shared_below_it_too(node: Asked) -> None:
    assert node.ask("route=api/v1,method=GET", hits=30).code == "OK"
    assert node.ask("route=api/v2,method=GET", hits=30).remaining == [0]
    assert node.ask("route=api/v3,method=GET").code == "OVER_LIMIT"
    assert node.ask("route=api/v3,method=POST").code == "OK"
