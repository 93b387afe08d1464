"""The place where programs import the wrapper for groups of agents from."""

from __future__ import annotations

from skate.rllib.env.multi_agent_env import GROUP_INFO, GROUP_REWARDS, GroupAgentsWrapper

__all__ = ["GROUP_INFO", "GROUP_REWARDS", "GroupAgentsWrapper"]
