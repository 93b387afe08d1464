"""Modules: the networks of policies, and the specs that build them."""

from __future__ import annotations

import logging
import re

from skate.rllib.core.rl_module.default_model_config import DefaultModelConfig
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from skate.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

__all__ = [
    "DefaultModelConfig",
    "MultiRLModule",
    "MultiRLModuleSpec",
    "RLModule",
    "RLModuleSpec",
    "validate_module_id",
]

_log = logging.getLogger(__name__)


def validate_module_id(policy_id: str, error: bool = False) -> None:
    """Check that a module's id can be the name of a folder.

    Args:
        policy_id: The id.
        error: Raise for an invalid id; else log a warning.

    Raises:
        ValueError: the id is empty, has one of ``<>:"/\\|?``, or ends with a dot or space.
    """
    valid = isinstance(policy_id, str) and bool(policy_id) and policy_id[-1] not in " ."
    if valid and not re.search(r'[<>:"/\\|?]', policy_id):
        return
    message = f"the module id {policy_id!r} cannot be the name of a folder; use letters, digits, - and _"
    if error:
        raise ValueError(message)
    _log.warning(message)
