"""The client of Serve's controller, which tests of programs get from `serve.context._get_global_client`."""

from __future__ import annotations

from typing import Any

import skate
from skate import serve
from skate.serve import config_loader, rest
from skate.serve.config.http import HTTPOptions
from skate.serve.exceptions import RayServeException
from skate.serve.identity import DEFAULT_APP
from skate.serve.routing import watch
from skate.serve.schema.deploy import ServeApplicationSchema, ServeDeploySchema


class ServeControllerClient:
    """Deploys configs, deletes applications and reads the state of Serve."""

    @property
    def _controller(self) -> Any:
        return watch.controller()

    @property
    def http_config(self) -> HTTPOptions:
        """The address that Serve listens on."""
        options = rest.details()["http_options"]
        known = {name: value for name, value in options.items() if name in HTTPOptions.model_fields}
        return HTTPOptions.model_validate(known)

    def deploy_apps(
        self, config: ServeDeploySchema | ServeApplicationSchema, _blocking: bool = False
    ) -> None:
        """Deploy the applications of a config; with `_blocking`, wait until they run.

        An application whose code cannot be imported has the status DEPLOY_FAILED, and the others are deployed.
        Raises RuntimeError if they do not run within a minute.
        """
        if isinstance(config, ServeApplicationSchema):
            config = ServeDeploySchema(applications=[config])
        config_loader.deploy(config, all_or_none=False)
        if _blocking:
            from skate.private_names.serve_test_kit import check_apps_running  # rarely needed
            from skate.private_names.test_kit import wait_for_condition  # rarely needed

            wait_for_condition(
                check_apps_running, timeout=60, apps=[each.name for each in config.applications]
            )

    def delete_apps(self, names: list[str], blocking: bool = True) -> None:
        """Delete applications; names without an application are ignored."""
        skate.get(self._controller.delete.remote(list(names), blocking))

    def delete_all_apps(self, blocking: bool = True) -> None:
        """Delete all applications."""
        self.delete_apps(list(serve.status().applications), blocking)

    def get_serve_details(self) -> dict[str, Any]:
        """Return the complete state, as in the REST API."""
        return rest.details()

    def get_handle(self, deployment_name: str, app_name: str = DEFAULT_APP, check_exists: bool = True) -> Any:
        """Return a handle. Raises KeyError if there is no such deployment, unless `check_exists` is False."""
        return serve.get_deployment_handle(deployment_name, app_name, _check_exists=check_exists)

    def shutdown_cached_handles(self) -> None:
        """Do nothing, because handles need not be shut down."""

    def shutdown(self, timeout_s: float = 30.0) -> None:
        """End all applications and Serve itself; `timeout_s` has no effect."""
        serve.shutdown()


def _get_global_client(raise_if_no_controller_running: bool = True) -> ServeControllerClient | None:
    """Return the client. If Serve is not running, raise RayServeException or return None."""
    try:
        watch.controller()
    except ValueError:
        if raise_if_no_controller_running:
            raise RayServeException(
                "There is no Serve instance running on this Ray cluster. Start it with serve.run(app) or serve.start()"
            ) from None
        return None
    return ServeControllerClient()
