"""Preloads the imports of replicas in the process that they are forked from. Most replicas use HTTP."""

from __future__ import annotations

import cloudpickle  # noqa: F401  (code and arguments are unpacked with it)

import skate.serve.logs
import skate.serve.routing.watch

try:
    import uvicorn.lifespan.off  # noqa: F401

    import skate.serve.ingress.http_server  # noqa: F401
    from skate.serve.ingress import application  # noqa: F401
except ImportError:  # without the extra, only handles call replicas
    pass

try:
    import uvloop  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  (loops of actors are uvloop's where it is loaded)
except ImportError:
    pass
