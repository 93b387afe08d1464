"""`init`, with the signature that programs know."""

from __future__ import annotations

import os
from typing import Any, cast

from skate.client.session import session


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: Any = None,
    configure_logging: bool = True,
    logging_level: Any = "info",
    logging_format: str | None = None,
    logging_config: Any = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: Any = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **kwargs: Any,
) -> session.RayContext:
    """Start a session: a node hosted in this process, with workers started as they are needed.

    Args:
        address: None or "local" to start here; for clusters "auto", "HOST:PORT", "ray://HOST:PORT" or Dask's "dask://HOST:PORT".
        num_cpus, num_gpus: to schedule by; default those this process may use. More GPUs than found are faked.
        resources, labels: amounts of custom resources by name; labels of the node, for label selectors.
        object_store_memory: bytes for large values; default 30 % of the memory.
        local_mode, ignore_reinit_error: run all in this process; return a running session instead of raising.
        namespace, runtime_env: where names of actors are looked up; environment of all tasks and actors.
        logging_level, logging_format, logging_config: of "skate" and "ray"; a `LoggingConfig` for all loggers and workers.
        include_dashboard, dashboard_host, dashboard_port: serve state and metrics over HTTP; False by default.
        _metrics_export_port: the port for metrics alone, at `dashboard_host`; 0 for a free one, by default none.
        log_to_driver, preload: print what workers print; modules that workers start with (not in Ray).

    Other arguments are accepted; one without effect warns. Raises RuntimeError if a session runs, ValueError, TypeError.
    """
    given = _apply(dict(locals()))
    context = session.init(
        address,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        labels=labels,
        object_store_memory=object_store_memory,
        local_mode=local_mode,
        ignore_reinit_error=ignore_reinit_error,
        log_to_driver=log_to_driver,
        namespace=namespace if namespace is not None else getattr(job_config, "ray_namespace", None),
        runtime_env=given["runtime_env"],
        **kwargs,
    )
    return _announced(context, given)


def _apply(given: dict[str, Any]) -> dict[str, Any]:
    """Warn of settings without effect, and set up the loggers; return all settings in one dict."""
    given |= given.pop("kwargs")
    from skate.client.session import ignored_settings  # not in workers

    ignored_settings.warn(given, stacklevel=3)
    level, format = given["logging_level"], given["logging_format"]
    if given["configure_logging"] and (level != "info" or format is not None):
        from skate.client.session.logging_level import configure  # few programs change it

        configure(level, format)
    job_config = given["job_config"]
    config = given["logging_config"] or getattr(job_config, "py_logging_config", None)
    if config is not None or "RAY_LOGGING_CONFIG_ENCODING" in os.environ:
        from skate.client.session import job_log_config  # few programs configure it

        job_log_config.begin(config)
    if given["runtime_env"] is None:
        given["runtime_env"] = getattr(job_config, "runtime_env", None)
    if "SKATE_JOB_SUBMISSION_ID" in os.environ and not session.is_initialized():
        from skate.client.session import submitted_job  # only commands of jobs

        given["runtime_env"] = submitted_job.runtime_env_with_job(given["runtime_env"])
        given["announce"] = submitted_job.announce
    hook = os.environ.get("RAY_RUNTIME_ENV_HOOK")
    if hook and not given.get("_skip_env_hook") and not session.is_initialized():
        from skate.runtime_env import hooks  # few programs have one

        given["runtime_env"] = hooks.named(hook)(given["runtime_env"])
    return given


def _announced(context: session.RayContext, given: dict[str, Any]) -> session.RayContext:
    """Announce the driver of a submitted job, and add the dashboard to the context."""
    if "announce" in given:
        given["announce"](session.current())
    if session.is_client():
        from skate.client.session import client_builder  # few programs are clients

        # As in Ray, a client gets another type, with the names that both have.
        return cast(session.RayContext, client_builder.client_context())
    metrics_port = given.get("_metrics_export_port")
    if given["include_dashboard"] or metrics_port is not None:
        from skate.client.session import dashboard_process  # starts a process

        place = dashboard_process.DashboardPlace(
            given["dashboard_host"],
            given["dashboard_port"],
            metrics_port=metrics_port,
            metrics_only=not given["include_dashboard"],
        )
        dashboard_process.begin(context, place)
    elif session.address_of_node().startswith("/"):
        from skate.client.session import dashboard_process  # the standing node may have one

        facts = dashboard_process.of_node(session.address_of_node())
        if facts is not None:
            dashboard_process.enter(context, facts)
    return context
