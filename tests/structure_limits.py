"""The counts of tests/test_structure.py today. A number may only go down; take off what is gone."""

from __future__ import annotations

FILES_IN_A_FOLDER = 20
CIRCLES: list[int] = [30, 30, 16, 12, 8, 8, 6, 4, 3, 2, 2, 2]
CROWDED: dict[str, int] = {"simulation": 25, "util": 22}
#: The places that may import a module by a string that is not a literal name of another package, and why.
IMPORTS_BY_STRING: dict[str, str] = {
    "skate.air.integrations.wandb": "a hook that the environment names",
    "skate.air.required": "packages that are not required",
    "skate.client.tensor.tensor_transports": "the transports of Ray's experimental package, which builds on the client",
    "skate.client.tracing": "a hook that the program names",
    "skate.command": "the table of verbs",
    "skate.compat": "names of Ray",
    "skate.data.internal": "packages that are not required",
    "skate.data.source.formats.crc32c": "packages that are not required",
    "skate.installed": "packages that are not required",
    "skate.lazy_loader": "public names of packages",
    "skate.private_names.functions": "a path that the program gives",
    "skate.private_names.table": "names of Ray",
    "skate.runtime_env.hooks": "a hook that the program names",
    "skate.serve.code.import_path": "a path that the user gives",
    "skate.serve.llm.app_builder": "a class that a config names",
    "skate.tune.utils.monitor": "packages that are not required",
}
LIBRARIES_NAMED_BY_THE_ENGINE = {
    "skate.client.tensor.tensor_transports: skate.experimental.rdt.collective_tensor_transport"
}
LIBRARY_ARROWS: dict[str, set[str]] = {
    "air": {"train", "tune", "util"},
    "dag": {"experimental", "util"},
    "data": {"llm"},
    "experimental": {"util"},
    "serve": {"dag", "llm", "util"},
    "train": {"air", "data", "util"},
    "tune": {"air", "train", "util"},
}
#: What the shell may use of the core.
DOOR = {"step", "tick", "effects", "connect", "disconnect", "watchful"}
REACHES_INTO_THE_CORE = 61
REACH_THROUGHS = 924
SHARE_OF_ANY: dict[str, int] = {
    "air": 29,
    "client": 18,
    "core": 2,
    "dag": 23,
    "data": 14,
    "experimental": 26,
    "llm": 5,
    "node": 4,
    "private_names": 13,
    "runtime_env": 9,
    "serve": 29,
    "simulation": 5,
    "train": 22,
    "tune": 24,
    "util": 14,
    "wire": 13,
    "worker": 10,
}
#: Nouns of the field, and modules that Ray names so.
NOUNS_IN_ING = {
    "autoscaling",
    "batching",
    "partitioning",
    "pytorch_lightning",
    "sampling",
    "tracing",
    "training",
}
NOUNS_IN_ING |= {"custom_func_checkpointing", "setup_local_tmp_tracing"}
#: Extras for those who work on Skate, or that bring a model along.
EXTRAS_OF_TOOLS = {"dev", "demo", "site", "retrieval"}
#: Packages whose module has another name.
MODULE_OF = {
    "pyyaml": "yaml", "pillow": "PIL", "grpcio": "grpc", "python-multipart": "multipart", "opentelemetry-sdk": "opentelemetry",
    "pylance": "lance", "grpcio-reflection": "grpc_reflection",
}  # fmt: skip
#: Packages that another package needs for what Skate does with it, or that an open issue will use.
ASKED_FOR_BY_OTHERS = {
    "httptools": "uvicorn's parser",
    "jinja2": "chat templates of transformers",
    "python-multipart": "forms of FastAPI",
    "s3fs": "S3 through fsspec",
    "safetensors": "checkpoints of transformers",
    "tokenizers": "tokenizers of transformers",
    "websockets": "WebSockets of uvicorn",
}
