"""The messages and calls of Terraform's plugin protocol 6, as far as a provider without functions needs them.

Messages are built while this module is loaded, from one line each: ``type:name:number``, a star for a list. So no
generated code is kept, and any protobuf runtime will do. Enumerations are integers on the wire and are so here.
"""

from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCALARS = {
    "int": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "enum": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "text": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}

MESSAGES = {
    "Empty": "",
    "DynamicValue": "bytes:msgpack:1 bytes:json:2",
    "Step": "text:attribute_name:1 text:element_key_string:2 int:element_key_int:3",
    "AttributePath": "*Step:steps:1",
    "Diagnostic": "enum:severity:1 text:summary:2 text:detail:3 AttributePath:attribute:4",
    "RawState": "bytes:json:1",
    "Attribute": "text:name:1 bytes:type:2 bool:required:4 bool:optional:5 bool:computed:6 bool:sensitive:7",
    "Block": "int:version:1 *Attribute:attributes:2 *NestedBlock:block_types:3",
    "NestedBlock": "text:type_name:1 Block:block:2 enum:nesting:3 int:min_items:4 int:max_items:5",
    "Schema": "int:version:1 Block:block:2",
    "Entry": "text:key:1 Schema:value:2",
    "Capabilities": "bool:plan_destroy:1 bool:get_provider_schema_optional:2",
    "SchemaResponse": "Schema:provider:1 *Entry:resource_schemas:2 *Entry:data_source_schemas:3"
    " *Diagnostic:diagnostics:4 Schema:provider_meta:5 Capabilities:server_capabilities:6",
    "ConfigRequest": "DynamicValue:config:1",
    "ConfigResponse": "*Diagnostic:diagnostics:2",
    "Diagnostics": "*Diagnostic:diagnostics:1",
    "ValidateRequest": "text:type_name:1 DynamicValue:config:2",
    "ConfigureRequest": "text:terraform_version:1 DynamicValue:config:2",
    "UpgradeRequest": "text:type_name:1 int:version:2 RawState:raw_state:3",
    "UpgradeResponse": "DynamicValue:upgraded_state:1 *Diagnostic:diagnostics:2",
    "ReadRequest": "text:type_name:1 DynamicValue:current_state:2 bytes:private:3",
    "ReadResponse": "DynamicValue:new_state:1 *Diagnostic:diagnostics:2 bytes:private:3",
    "PlanRequest": "text:type_name:1 DynamicValue:prior_state:2 DynamicValue:proposed_new_state:3"
    " DynamicValue:config:4 bytes:prior_private:5",
    "PlanResponse": "DynamicValue:planned_state:1 *AttributePath:requires_replace:2 bytes:planned_private:3"
    " *Diagnostic:diagnostics:4 bool:legacy_type_system:5",
    "ApplyRequest": "text:type_name:1 DynamicValue:prior_state:2 DynamicValue:planned_state:3"
    " DynamicValue:config:4 bytes:planned_private:5",
    "ApplyResponse": "DynamicValue:new_state:1 bytes:private:2 *Diagnostic:diagnostics:3 bool:legacy_type_system:4",
    "ImportRequest": "text:type_name:1 text:id:2",
    "Imported": "text:type_name:1 DynamicValue:state:2 bytes:private:3",
    "ImportResponse": "*Imported:imported_resources:1 *Diagnostic:diagnostics:2",
    "DataRequest": "text:type_name:1 DynamicValue:config:2",
    "DataResponse": "DynamicValue:state:1 *Diagnostic:diagnostics:2",
}

CALLS = {
    "GetProviderSchema": ("Empty", "SchemaResponse"),
    "ValidateProviderConfig": ("ConfigRequest", "ConfigResponse"),
    "ValidateResourceConfig": ("ValidateRequest", "Diagnostics"),
    "ValidateDataResourceConfig": ("ValidateRequest", "Diagnostics"),
    "UpgradeResourceState": ("UpgradeRequest", "UpgradeResponse"),
    "ConfigureProvider": ("ConfigureRequest", "Diagnostics"),
    "ReadResource": ("ReadRequest", "ReadResponse"),
    "PlanResourceChange": ("PlanRequest", "PlanResponse"),
    "ApplyResourceChange": ("ApplyRequest", "ApplyResponse"),
    "ImportResourceState": ("ImportRequest", "ImportResponse"),
    "ReadDataSource": ("DataRequest", "DataResponse"),
    "GetFunctions": ("Empty", "Empty"),
    "StopProvider": ("Empty", "Empty"),
}

PACKAGE = "signalbox.plugin"


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="plugin.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for line in fields.split():
            _add_field(message, *line.split(":"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


def _add_field(message: Any, kind: str, name: str, number: str) -> None:
    field = descriptor_pb2.FieldDescriptorProto
    label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    kind = kind.lstrip("*")
    added = message.field.add(name=name, number=int(number), label=label, type=SCALARS.get(kind, field.TYPE_MESSAGE))
    if kind not in SCALARS:
        added.type_name = f".{PACKAGE}.{kind}"


_CLASSES = _message_classes()


def message(kind: str, /, **values: Any) -> Any:
    """Make a message of the protocol."""
    return _CLASSES[kind](**values)


def provider_calls(servicer: Any) -> Any:
    """Return the handler of every call that a provider answers; the servicer has a method named after each."""
    return grpc.method_handlers_generic_handler(
        "tfplugin6.Provider", {name: _unary(getattr(servicer, name), *kinds) for name, kinds in CALLS.items()}
    )


def _unary(answer: Any, request: str, response: str) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        lambda content, _: answer(content),
        _CLASSES[request].FromString,
        _CLASSES[response].SerializeToString,
    )
