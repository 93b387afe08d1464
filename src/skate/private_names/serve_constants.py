"""Constants of Ray Serve that programs and their tests import from `ray.serve._private.constants`."""

from __future__ import annotations

from skate.serve.identity import CONTROLLER_NAME, DEFAULT_APP, NAMESPACE

DEFAULT_GRPC_PORT = 9000
DEFAULT_HTTP_HOST = "127.0.0.1"
DEFAULT_HTTP_PORT = 8000
DEFAULT_MAX_ONGOING_REQUESTS = 5
DEFAULT_TARGET_ONGOING_REQUESTS = 2
HEALTH_CHECK_METHOD = "check_health"
RECONFIGURE_METHOD = "reconfigure"
SERVE_CONTROLLER_NAME = CONTROLLER_NAME
SERVE_DEFAULT_APP_NAME = DEFAULT_APP
SERVE_HTTP_REQUEST_ID_HEADER = "x-request-id"
SERVE_HTTP_REQUEST_TIMEOUT_S_HEADER = "x-request-timeout-seconds"
SERVE_LOGGER_NAME = "ray.serve"
SERVE_MULTIPLEXED_MODEL_ID = "serve_multiplexed_model_id"
SERVE_NAMESPACE = NAMESPACE
# Replicas accept connections themselves; there is no proxy in front of them.
RAY_SERVE_ENABLE_DIRECT_INGRESS = False
RAY_SERVE_ENABLE_HA_PROXY = False
