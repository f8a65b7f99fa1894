"""Reflection: a client that knows nothing learns all it needs."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.grpc import wire
from tests.grpc.client import HEALTH, RATE_LIMIT, REFLECTION, REFLECTION_ALPHA, Client, Messages, by

BOTH = pytest.mark.parametrize("service", [REFLECTION, REFLECTION_ALPHA])


@BOTH
def test_every_service_is_listed(client: Client, service: str) -> None:
    assert client.services(service) == [RATE_LIMIT, HEALTH, REFLECTION, REFLECTION_ALPHA]


@BOTH
def test_the_files_of_each_service_are_enough_to_build_its_messages(client: Client, service: str) -> None:
    for name in client.services(service):
        described = Messages(client.files(name, service)).service(name)
        assert described.full_name == name
        for method in described.methods:
            assert method.input_type.fields, method.full_name


def test_messages_built_from_reflection_are_understood(client: Client) -> None:
    assert client.ask(by(user="42")).code == "OK"
    assert client.health() == "SERVING"


def test_a_stream_answers_each_question_in_turn(client: Client) -> None:
    questions = [wire.field(7, ""), wire.field(4, HEALTH), wire.field(3, "nowhere.proto"), wire.field(7, "")]
    answers = client.reflect(*questions)
    assert [wire.bytes_fields(answer, 2) for answer in answers] == [[question] for question in questions]
    kinds = [{number for number, _ in wire.fields(answer)} & {4, 6, 7} for answer in answers]
    assert kinds == [{6}, {4}, {7}, {6}]


def test_files_can_be_asked_for_by_name(client: Client) -> None:
    name = "envoy/service/ratelimit/v3/rls.proto"
    [answer] = client.reflect(wire.field(3, name))
    [found] = wire.bytes_fields(answer, 4)
    assert FileDescriptorProto.FromString(wire.bytes_fields(found, 1)[0]).name == name


@pytest.mark.parametrize("question", [wire.field(4, "envoy.Nothing"), wire.field(3, ""), wire.field(6, RATE_LIMIT)])
def test_what_is_not_there_is_not_found_and_the_stream_goes_on(client: Client, question: bytes) -> None:
    answers = client.reflect(question, wire.field(7, ""))
    [error] = wire.bytes_fields(answers[0], 7)
    assert dict(wire.fields(error))[1] == 5
    assert wire.bytes_fields(answers[1], 6)


def test_field_numbers_are_those_of_the_published_api(client: Client) -> None:
    request = client.messages.kind("envoy.service.ratelimit.v3.RateLimitRequest").DESCRIPTOR
    assert {field.name: field.number for field in request.fields} == {"domain": 1, "descriptors": 2, "hits_addend": 3}
    status = client.messages.kind("envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus").DESCRIPTOR
    assert {field.name: field.number for field in status.fields} == {
        "code": 1,
        "current_limit": 2,
        "limit_remaining": 3,
        "duration_until_reset": 4,
        "quota": 5,
    }
