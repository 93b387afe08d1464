"""A debugger in tasks, under the name of Ray's debugger for editors."""

from __future__ import annotations

from skate.util.rpdb import set_trace

POST_MORTEM_ERROR_UUID = "post_mortem_error_uuid"

__all__ = ["POST_MORTEM_ERROR_UUID", "set_trace"]
