"""The counts of tests/test_structure.py today. A number may only go down; take off what is gone."""

from __future__ import annotations

FILES_IN_A_FOLDER = 20
CIRCLES: list[int] = [16, 15, 8, 8, 8, 4, 4, 3, 3, 2, 2, 2]
CROWDED: dict[str, int] = {}
#: The places that may import a module by a string that is not a literal name of another package, and why.
IMPORTS_BY_STRING: dict[str, str] = {
    "skate.air.integrations.wandb": "a hook that the environment names",
    "skate.air.named_callbacks": "callbacks that the environment names",
    "skate.client.tensor.tensor_transports": "the transports of Ray's experimental package, which builds on the client",
    "skate.client.tracing": "a hook that the program names",
    "skate.command": "the table of verbs",
    "skate.compat": "names of Ray",
    "skate.crc32c": "packages that are not required",
    "skate.import_paths": "names of Ray",
    "skate.installed": "packages that are not required",
    "skate.job_submission.client": "a provider of clusters that an address names",
    "skate.lazy_loader": "public names of packages",
    "skate.private_names.functions": "a path that the program gives",
    "skate.rllib.utils.from_config": "a class that a config names",
    "skate.runtime_env.hooks": "a hook that the program names",
    "skate.serve.code.import_path": "a path that the user gives",
    "skate.serve.llm.app_builder": "a class that a config names",
    "skate.tune.utils.monitor": "packages that are not required",
}
LIBRARIES_NAMED_BY_THE_ENGINE = {
    "skate.node.dashboard_process: skate.dashboard",  # the program that it starts
    "skate.client.tensor.tensor_transports: skate.experimental.rdt.collective_tensor_transport",
}
LIBRARY_ARROWS: dict[str, set[str]] = {
    "air": {"train", "tune", "util"},
    "dag": {"experimental", "util"},
    "dashboard": {"util"},
    "data": {"llm", "util"},
    "experimental": {"util"},
    "rllib": {"experimental", "train", "tune"},
    "serve": {"experimental", "llm", "util"},
    "train": {"air", "data", "util"},
    "tune": {"air", "train", "util"},
}
#: What the shell may use of the core, and what it may pass a core to.
DOOR = {"step", "tick", "effects", "snapshot"}
MAY_BE_GIVEN_A_CORE = {"Guard", "admit_client", "EventLog", "EventLogFile", "_event_log"}
LIBRARIES_WITH_A_CORE = {"fsspec"}
REACHES_INTO_THE_CORE = 0
#: Where the simulator looks inside of its cores, to check or to measure them.
CHECKS_OF_THE_SIMULATOR = {
    "accounts",
    "between_nodes",
    "cluster",
    "costs",
    "disk",
    "member",
    "observer",
    "quiescence",
    "worker",
    "world",
}
REACH_THROUGHS = 13
SHARE_OF_ANY: dict[str, int] = {
    "air": 12,
    "autoscaler": 2,
    "client": 13,
    "command": 2,
    "core": 2,
    "dag": 23,
    "dashboard": 1,
    "data": 14,
    "experimental": 26,
    "fabric": 1,
    "job_submission": 5,
    "launcher": 1,
    "llm": 4,
    "node": 3,
    "private_names": 8,
    "rllib": 26,
    "runtime_env": 8,
    "serve": 13,
    "simulation": 4,
    "train": 21,
    "tune": 24,
    "util": 11,
    "wire": 11,
    "worker": 8,
}
#: Definitions of the engine that nothing of Skate uses: public names of Ray, and what tests look at.
USED_BY_PROGRAMS_OR_TESTS = {
    # The end of a drain, for the carrier of a cluster.
    "skate.fabric.directory.drained",
    # Called by Dask.
    "skate.client.session.dask_session.remove_client",
    "skate.client.session.dask_session.remove_worker",
    "skate.fabric.dask.scheduler.remove_worker",
    "skate.fabric.dask.scheduler.start_http_server",
    "skate.fabric.dask.worker.handle_scheduler",
    "skate.fabric.dask.worker.start_http_server",
    *(
        f"skate.client.runtime_context.{name}"
        for name in (
            "get_resource_ids", "get_placement_group_id",
            "get_node_labels", "is_canceled", "get_session_name", "get_temp_dir",
        )
    ),
    "skate.core.ids.from_int",
    # Invariants and models of tests.
    "skate.core.memory.arena.largest_free",
    "skate.core.resource.resources.free_units",
    "skate.core.resource.resources.total_of",
    # The table of messages in the documents.
    "skate.protocol.directory.DIRECTIONS",
    "skate.protocol.directory.constant_of",
}  # fmt: skip
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
NOUNS_IN_ING |= {
    "frame_stacking",
    "ring",
    "custom_func_checkpointing",
    "padding",
    "typing",
    "setup_local_tmp_tracing",
    "setup_tempo_tracing",
}
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
    "redis": "Celery's broker",
    "s3fs": "S3 through fsspec",
    "safetensors": "checkpoints of transformers",
    "tokenizers": "tokenizers of transformers",
}
