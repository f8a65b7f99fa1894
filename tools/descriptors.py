"""Makes the file descriptors that gRPC reflection answers with.

Run by hand when the API is to be followed, where `xds-protos`, `grpcio-health-checking` and `grpcio-reflection` are:

    python tools/descriptors.py crates/node/src/serve/grpc/descriptors.bin

Envoy's files import half of its API; only what the served methods can say is kept, under the real file names, packages
and field numbers. Options go (validation, code generation), except where they are part of a message's meaning.
"""

import sys
from collections.abc import Iterable, Iterator, MutableSequence
from pathlib import Path
from typing import Any

from envoy.service.ratelimit.v3 import rls_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

# Every program that knows these has them whole, and some compare.
KEPT_WHOLE = "google/protobuf/"
METHODS = {
    "RateLimitService": {"ShouldRateLimit"},
    "Health": {"Check", "Watch"},
    "ServerReflection": {"ServerReflectionInfo"},
}


def proto_of(file: FileDescriptor) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return proto


def files_under(file: FileDescriptor, found: dict[str, FileDescriptorProto]) -> dict[str, FileDescriptorProto]:
    """Dependencies before those who depend on them."""
    for dependency in file.dependencies:
        if dependency.name not in found:
            files_under(dependency, found)
    found[file.name] = proto_of(file)
    return found


def renamed(file: FileDescriptor, name: str, package: str) -> FileDescriptorProto:
    """The same file under another name and package. Python's packages name theirs after themselves."""
    old = f".{file.package}."
    proto = proto_of(file)
    proto.name, proto.package = name, package
    for message in all_messages(proto.message_type):
        for field in message.field:
            if field.type_name.startswith(old):
                field.type_name = f".{package}.{field.type_name.removeprefix(old)}"
    for service in proto.service:
        for method in service.method:
            method.input_type = f".{package}.{method.input_type.removeprefix(old)}"
            method.output_type = f".{package}.{method.output_type.removeprefix(old)}"
    return proto


def all_messages(messages: list[DescriptorProto]) -> Iterator[DescriptorProto]:
    for message in messages:
        yield message
        yield from all_messages(message.nested_type)


class Types:
    """Every type of some files by its full name, and which of them are needed."""

    def __init__(self, files: list[FileDescriptorProto]) -> None:
        self.home: dict[str, str] = {}
        self.needed: set[str] = set()
        self._messages: dict[str, DescriptorProto] = {}
        for file in files:
            self._add(file.name, f".{file.package}", file.message_type, file.enum_type)

    def _add(self, home: str, scope: str, messages: list[DescriptorProto], enums: list[EnumDescriptorProto]) -> None:
        for enum in enums:
            self.home[f"{scope}.{enum.name}"] = home
        for message in messages:
            name = f"{scope}.{message.name}"
            self.home[name] = home
            self._messages[name] = message
            self._add(home, name, message.nested_type, message.enum_type)

    def need(self, name: str) -> None:
        if name in self.needed:
            return
        self.needed.add(name)
        outer = name.rpartition(".")[0]
        if outer in self._messages:
            self.need(outer)
        if name in self._messages:
            for field in self._messages[name].field:
                if field.type_name:
                    self.need(field.type_name)


def keep(items: MutableSequence[Any], wanted: Iterable[bool]) -> None:
    for index, is_wanted in reversed(list(enumerate(wanted))):
        if not is_wanted:
            del items[index]


def prune_message(message: DescriptorProto, name: str, types: Types) -> None:
    is_map_entry = message.options.map_entry
    message.ClearField("options")
    if is_map_entry:
        message.options.map_entry = True
    for field in message.field:
        field.ClearField("options")
    for oneof in message.oneof_decl:
        oneof.ClearField("options")
    prune_types(message.nested_type, message.enum_type, name, types)


def prune_types(messages: list[DescriptorProto], enums: list[EnumDescriptorProto], scope: str, types: Types) -> None:
    keep(messages, (f"{scope}.{message.name}" in types.needed for message in messages))
    keep(enums, (f"{scope}.{enum.name}" in types.needed for enum in enums))
    for message in messages:
        prune_message(message, f"{scope}.{message.name}", types)
    for enum in enums:
        enum.ClearField("options")
        for value in enum.value:
            value.ClearField("options")


def prune_file(file: FileDescriptorProto, types: Types) -> None:
    file.ClearField("options")
    file.ClearField("public_dependency")
    file.ClearField("weak_dependency")
    for service in file.service:
        service.ClearField("options")
        for method in service.method:
            method.ClearField("options")
    prune_types(file.message_type, file.enum_type, f".{file.package}", types)
    used = {types.home[name] for name in names_used(file)}
    keep(file.dependency, (dependency in used for dependency in file.dependency))


def names_used(file: FileDescriptorProto) -> Iterator[str]:
    for message in all_messages(file.message_type):
        yield from (field.type_name for field in message.field if field.type_name)
    for service in file.service:
        for method in service.method:
            yield from (method.input_type, method.output_type)


def descriptors() -> FileDescriptorSet:
    files = list(files_under(rls_pb2.DESCRIPTOR, {}).values())
    files.append(renamed(health_pb2.DESCRIPTOR, "grpc/health/v1/health.proto", "grpc.health.v1"))
    for version in "v1", "v1alpha":
        name, package = f"grpc/reflection/{version}/reflection.proto", f"grpc.reflection.{version}"
        files.append(renamed(reflection_pb2.DESCRIPTOR, name, package))
    types = Types(files)
    for file in files:
        for service in file.service:
            keep(service.method, (method.name in METHODS[service.name] for method in service.method))
            for method in service.method:
                types.need(method.input_type)
                types.need(method.output_type)
    homes = {types.home[name] for name in types.needed}
    wanted = [file for file in files if file.name in homes]
    for file in wanted:
        if not file.name.startswith(KEPT_WHOLE):
            prune_file(file, types)
    return FileDescriptorSet(file=wanted)


def main() -> None:
    made = descriptors()
    Path(sys.argv[1]).write_bytes(made.SerializeToString(deterministic=True))
    for file in made.file:
        print(f"{file.ByteSize():5} bytes  {file.name}")


if __name__ == "__main__":
    main()
