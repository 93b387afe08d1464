"""Serve: deployments of Python code that answer requests from handles and over HTTP."""

from __future__ import annotations

from skate import lazy_loader

# Modules have these names too. Importing those modules later does not change the meaning of the names here.
from skate.serve.deployment import Application, Deployment, deployment
from skate.serve.ingress.views import ingress

#: Public names by module, imported on first use.
_HOMES = {
    "skate.serve.api": (
        "RunTarget",
        "_run",
        "_run_many",
        "delete",
        "get_app_handle",
        "get_deployment_actor",
        "get_deployment_actor_context",
        "get_deployment_handle",
        "run",
        "run_many",
        "shutdown",
        "shutdown_async",
        "start",
        "status",
    ),
    "skate.serve.batching": ("batch",),
    "skate.serve.config.http": ("ControllerOptions", "HTTPOptions"),
    "skate.serve.context": ("get_multiplexed_model_id", "get_replica_context", "get_trace_context"),
    "skate.serve.multiplex": ("multiplexed",),
    "skate.serve.schema.tracing": ("TracingConfig",),
}
_PARTS = (
    "api", "autoscaling_policy", "batching", "config", "context", "exceptions", "grpc_util", "handle",
    "metrics", "multiplex", "request_router", "schema",
)  # fmt: skip

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _PARTS)
__all__ += ["Application", "Deployment", "deployment", "ingress"]
