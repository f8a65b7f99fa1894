"""Any configuration, imported, is answered as a slow model of envoyproxy/ratelimit's look-up says (SEMANTICS 7.4)."""

from __future__ import annotations

import json
from random import Random

import yaml
from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Server
from headgate.importing.envoy import convert
from headgate.importing.source import Source
from headgate.model.document import read_nodes
from tests.engine import Clocked
from tests.grpc.client import Client, Descriptor, first_address
from tests.importing.envoy_cases import configuration, descriptor
from tests.model.limits import SECOND_US
from tests.model.ratelimit import Answered, Model
from tests.properties.strategies import START_US, examples

DOMAIN = "d"
WAITS_S = [0, 0, 0, 1, 20, 60]


@examples(120)
@given(seed=st.integers(0, 2**32))
def test_calls_are_answered_as_the_model_answers(learned: Client, seed: int) -> None:
    random = Random(seed)
    descriptors = configuration(random, counts=[0, 1, 2, 3, 5], units=["second", "minute"])
    root, flaws = read_nodes(yaml.safe_dump({"domain": DOMAIN, "descriptors": descriptors}, allow_unicode=True), "f")
    assert root is not None
    assert not flaws
    node = Clocked(START_US)
    node.engine.load_rules(json.dumps(convert([Source("f", root)]).document))
    server = Server(node.engine, listen="127.0.0.1:0", threads=1)
    server.start()
    model, now_us = Model(descriptors), START_US
    pool = [descriptor(random) for _ in range(6)]
    try:
        with Client(first_address(server)) as client:
            client.share_messages(learned)
            for _ in range(20):
                now_us += random.choice(WAITS_S) * SECOND_US
                node.at(now_us)
                call, hits = random.sample(pool, random.randint(1, 3)), random.randint(1, 2)
                answer = client.ask(*map(Descriptor, call), domain=DOMAIN, hits=hits)
                told = [Answered(status.code, status.limit, status.remaining) for status in answer.statuses]
                assert (answer.code, told) == model.ask(call, hits, now_us / SECOND_US), (call, hits)
    finally:
        server.drain(0.0)
