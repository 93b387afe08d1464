"""Messages of `ray.serve.RayServeAPIService`. Requires protobuf."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "ray.serve"
SERVICE = "RayServeAPIService"
_TEXT = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_ONE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "HealthzRequest": (),
    "HealthzResponse": (("message", _ONE),),
    "ListApplicationsRequest": (),
    "ListApplicationsResponse": (("application_names", _MANY),),
}


def _described() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="skate/serve/serve.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, label) in enumerate(fields, 1):
            message.field.add(name=field, number=number, type=_TEXT, label=label)
    service = file.service.add(name=SERVICE)
    for method in ("ListApplications", "Healthz"):
        service.method.add(
            name=method,
            input_type=f".{PACKAGE}.{method}Request",
            output_type=f".{PACKAGE}.{method}Response",
        )
    return descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


DESCRIPTOR = _described()


def _message(name: str) -> Any:
    described = descriptor_pool.Default().FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(described)


HealthzRequest = _message("HealthzRequest")
HealthzResponse = _message("HealthzResponse")
ListApplicationsRequest = _message("ListApplicationsRequest")
ListApplicationsResponse = _message("ListApplicationsResponse")
