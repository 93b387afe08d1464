"""The spec of one module among several, and the base class of the old stack's policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class PolicySpec:
    """One module of `multi_agent(policies={...})`.

    Args:
        policy_class: must be None: a class of the old API stack.
        observation_space: the module's observations; None for those of its agents.
        action_space: the module's actions; None for those of its agents.
        config: settings that differ from the algorithm's, a dict.
    """

    policy_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    config: Any = None

    def __post_init__(self) -> None:
        if self.policy_class is not None:
            raise ValueError(
                f"policy_class={self.policy_class!r} is of the old API stack; write an RLModule, and set it with "
                ".rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={...}))"
            )


class Policy:
    """The base class of policies of the old API stack, which programs name beside their modules; it cannot be made.

    Raises:
        NotImplementedError: When an object of it, or of a subclass, is made.
    """

    #: Subclasses define methods that are not here.
    overrides_are_unknown = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} is a policy of the old API stack; write an RLModule, and pass it with "
            ".rl_module(rl_module_spec=RLModuleSpec(module_class=...))"
        )
