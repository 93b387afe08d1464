"""Messages of `ray.serve.RayServeAPIService`, and of the services with which Ray shows gRPC. Requires protobuf."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "ray.serve"
SERVICE = "RayServeAPIService"
_Field = descriptor_pb2.FieldDescriptorProto
_MANY = frozenset({"application_names"})
_FIELDS: dict[str, dict[str, int]] = {
    "HealthzRequest": {},
    "HealthzResponse": {"message": _Field.TYPE_STRING},
    "ListApplicationsRequest": {},
    "ListApplicationsResponse": {"application_names": _Field.TYPE_STRING},
    "UserDefinedMessage": {"name": _Field.TYPE_STRING, "foo": _Field.TYPE_STRING, "num": _Field.TYPE_INT64},
    "UserDefinedResponse": {"greeting": _Field.TYPE_STRING, "num_x2": _Field.TYPE_INT64},
    "UserDefinedMessage2": {},
    "UserDefinedResponse2": {"greeting": _Field.TYPE_STRING},
    "FruitAmounts": dict.fromkeys(("orange", "apple", "banana"), _Field.TYPE_INT64),
    "FruitCosts": {"costs": _Field.TYPE_FLOAT},
}
#: The methods of each service: the messages that they take and return, and `stream` for each of the two that is a stream.
SERVICES: dict[str, dict[str, tuple[str, str, str]]] = {
    SERVICE: {
        "ListApplications": ("ListApplicationsRequest", "ListApplicationsResponse", "unary_unary"),
        "Healthz": ("HealthzRequest", "HealthzResponse", "unary_unary"),
    },
    "UserDefinedService": {
        "__call__": ("UserDefinedMessage", "UserDefinedResponse", "unary_unary"),
        "Method1": ("UserDefinedMessage", "UserDefinedResponse", "unary_unary"),
        "Method2": ("UserDefinedMessage2", "UserDefinedResponse2", "unary_unary"),
        "Streaming": ("UserDefinedMessage", "UserDefinedResponse", "unary_stream"),
        "ClientStreaming": ("UserDefinedMessage", "UserDefinedResponse", "stream_unary"),
        "BidiStreaming": ("UserDefinedMessage", "UserDefinedResponse", "stream_stream"),
    },
    "FruitService": {"FruitStand": ("FruitAmounts", "FruitCosts", "unary_unary")},
}


def _described() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="skate/serve/serve.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            label = _Field.LABEL_REPEATED if field in _MANY else _Field.LABEL_OPTIONAL
            message.field.add(name=field, number=number, type=kind, label=label)
    for name, methods in SERVICES.items():
        service = file.service.add(name=name)
        for method, (taken, returned, kind_of_call) in methods.items():
            client, _, server = kind_of_call.partition("_")
            service.method.add(
                name=method,
                input_type=f".{PACKAGE}.{taken}",
                output_type=f".{PACKAGE}.{returned}",
                client_streaming=client == "stream",
                server_streaming=server == "stream",
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
UserDefinedMessage = _message("UserDefinedMessage")
UserDefinedResponse = _message("UserDefinedResponse")
UserDefinedMessage2 = _message("UserDefinedMessage2")
UserDefinedResponse2 = _message("UserDefinedResponse2")
FruitAmounts = _message("FruitAmounts")
FruitCosts = _message("FruitCosts")
