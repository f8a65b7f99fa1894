"""A gRPC client that knows no message in advance: it builds them all from what the server's reflection says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from headgate._core import Server
from tests.grpc import wire
from tests.integration.http_node import PATIENCE_S
from tests.servers.closing import Closing

RATE_LIMIT = "envoy.service.ratelimit.v3.RateLimitService"
HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection.v1.ServerReflection"
REFLECTION_ALPHA = "grpc.reflection.v1alpha.ServerReflection"


class Messages:
    """Message classes by their full names. A pool of its own: what the test's libraries know is not used."""

    def __init__(self, files: Iterable[bytes]) -> None:
        self._pool = DescriptorPool()
        waiting = {proto.name: proto for proto in map(FileDescriptorProto.FromString, files)}
        while waiting:
            ready = [proto for proto in waiting.values() if not set(proto.dependency) & set(waiting)]
            assert ready, f"imports in a circle: {sorted(waiting)}"
            for proto in ready:
                self._pool.Add(waiting.pop(proto.name))

    def kind(self, name: str) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(name))

    def value_name(self, enum: str, number: int) -> str:
        return str(self._pool.FindEnumTypeByName(enum).values_by_number[number].name)

    def service(self, name: str) -> Any:
        return self._pool.FindServiceByName(name)


@dataclass(frozen=True)
class Descriptor:
    """Entries, and what a descriptor may bring with it."""

    entries: Mapping[str, str] | Sequence[tuple[str, str]]
    limit: tuple[int, str] | None = None
    hits: int | None = None

    def pairs(self) -> Iterable[tuple[str, str]]:
        return self.entries.items() if isinstance(self.entries, Mapping) else self.entries


def by(limit: tuple[int, str] | None = None, hits: int | None = None, **entries: str) -> Descriptor:
    return Descriptor(entries, limit, hits)


@dataclass(frozen=True)
class Status:
    """What was said of one descriptor."""

    code: str
    rule: str | None = None
    limit: int | None = None
    unit: str | None = None
    remaining: int = 0
    reset_s: float | None = None


@dataclass(frozen=True)
class Answer:
    code: str
    statuses: list[Status]
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def codes(self) -> list[str]:
        return [status.code for status in self.statuses]

    @property
    def remaining(self) -> list[int]:
        return [status.remaining for status in self.statuses]


class Client(Closing):
    """One connection, made when first used."""

    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None = None, name: str = "") -> None:
        # Without the rest of a process' channels: each client is a connection of its own.
        options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        if target.startswith("unix:"):
            # Else it would be the path, percent-encoded: no name that HTTP/2 allows there.
            options.append(("grpc.default_authority", "localhost"))
        if name:
            options.append(("grpc.ssl_target_name_override", name))
        # The stubs have no word for a method whose messages are bytes.
        self.channel: Any
        if credentials is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(target, credentials, options)
        self._messages: Messages | None = None

    def close(self) -> None:
        self.channel.close()

    def raw(self, method: str, request: bytes, **options: Any) -> bytes:
        """One message to `package.Service/Method`, one message back."""
        answer: bytes = self.channel.unary_unary(f"/{method}")(request, **({"timeout": PATIENCE_S} | options))
        return answer

    def reflect(self, *requests: bytes, service: str = REFLECTION) -> list[bytes]:
        call = self.channel.stream_stream(f"/{service}/ServerReflectionInfo")
        return list(call(iter(requests), timeout=PATIENCE_S))

    def services(self, service: str = REFLECTION) -> list[str]:
        [answer] = self.reflect(wire.field(7, ""), service=service)
        [listed] = wire.bytes_fields(answer, 6)
        return [wire.bytes_fields(item, 1)[0].decode() for item in wire.bytes_fields(listed, 1)]

    def files(self, symbol: str, service: str = REFLECTION) -> list[bytes]:
        """The file that has the symbol, and what it imports."""
        [answer] = self.reflect(wire.field(4, symbol), service=service)
        [found] = wire.bytes_fields(answer, 4)
        return wire.bytes_fields(found, 1)

    @property
    def messages(self) -> Messages:
        if self._messages is None:
            found = {file: None for service in self.services() for file in self.files(service)}
            self._messages = Messages(found)
        return self._messages

    def share_messages(self, other: Client) -> Client:
        """Saves asking the same server again."""
        self._messages = other.messages
        return self

    def request(self, *descriptors: Descriptor, domain: str = "", hits: int = 0) -> Any:
        request = self.messages.kind(f"{RATE_LIMIT.rpartition('.')[0]}.RateLimitRequest")(
            domain=domain, hits_addend=hits
        )
        for descriptor in descriptors:
            written = request.descriptors.add()
            for key, value in descriptor.pairs():
                written.entries.add(key=key, value=value)
            if descriptor.limit is not None:
                written.limit.requests_per_unit = descriptor.limit[0]
                written.limit.unit = (
                    written.limit.DESCRIPTOR.fields_by_name["unit"].enum_type.values_by_name[descriptor.limit[1]].number
                )
            if descriptor.hits is not None:
                written.hits_addend.value = descriptor.hits
        return request

    def ask(self, *descriptors: Descriptor, domain: str = "", hits: int = 0, **options: Any) -> Answer:
        request = self.request(*descriptors, domain=domain, hits=hits)
        return self.answer(self.raw(f"{RATE_LIMIT}/ShouldRateLimit", request.SerializeToString(), **options))

    def answer(self, data: bytes) -> Answer:
        package = RATE_LIMIT.rpartition(".")[0]
        response = self.messages.kind(f"{package}.RateLimitResponse").FromString(data)
        return Answer(
            code=self._code(response.overall_code),
            statuses=[self._status(status) for status in response.statuses],
            headers=_headers(response.response_headers_to_add),
            body=response.raw_body,
        )

    def _code(self, number: int) -> str:
        return self.messages.value_name("envoy.service.ratelimit.v3.RateLimitResponse.Code", number)

    def _status(self, status: Any) -> Status:
        reset = status.duration_until_reset
        reset_us = reset.seconds * 1_000_000 + reset.nanos // 1_000
        reset_s = reset_us / 1_000_000 if status.HasField("duration_until_reset") else None
        if not status.HasField("current_limit"):
            return Status(self._code(status.code), remaining=status.limit_remaining, reset_s=reset_s)
        current = status.current_limit
        unit = self.messages.value_name("envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit", current.unit)
        return Status(
            self._code(status.code), current.name, current.requests_per_unit, unit, status.limit_remaining, reset_s
        )

    def health(self, service: str = "", **options: Any) -> str:
        request = self.messages.kind("grpc.health.v1.HealthCheckRequest")(service=service)
        data = self.raw(f"{HEALTH}/Check", request.SerializeToString(), **options)
        return self.health_status(data)

    def health_status(self, data: bytes) -> str:
        response = self.messages.kind("grpc.health.v1.HealthCheckResponse").FromString(data)
        return self.messages.value_name("grpc.health.v1.HealthCheckResponse.ServingStatus", response.status)


def first_address(server: Server) -> str:
    return next(iter(server.addresses().values()))


def _headers(listed: Any) -> dict[str, str]:
    """Field names are case-insensitive; Envoy wants each once."""
    found: dict[str, str] = {}
    for item in listed:
        assert item.key.lower() not in found
        assert not (item.value and item.raw_value)
        found[item.key.lower()] = item.value or item.raw_value.decode()
    return found
