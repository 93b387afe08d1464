"""Acting with a trained algorithm: actions for single observations, outside of its own environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skate.rllib.core.columns import Columns

INPUT_ENV_SINGLE_SPACES = "__env_single__"
#: The branch of a run's seed that explored actions outside of training are drawn from.
_ROLE = 97


class Acting:
    """The part of an algorithm that computes actions."""

    config: Any
    spaces: dict[str, Any]
    env_runner: Any
    _actions_stream: Any = None

    if TYPE_CHECKING:

        def get_module(self, module_id: str = "default_policy") -> Any: ...

        def _steps_sampled(self) -> int: ...

    def compute_single_action(
        self,
        observation: Any,
        state: Any = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = "default_policy",
        explore: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the action for one observation, as the environment takes it.

        Args:
            observation: an observation of the environment; it is preprocessed as in training.
            state: the recurrent state that the last call returned; needed for a module with memory.
            prev_action: accepted for compatibility.
            prev_reward: accepted for compatibility.
            info: accepted for compatibility.
            policy_id: the id of the module.
            explore: True to sample the action, False for the best one; None for the configuration's.
            kwargs: accepted for compatibility.

        Returns:
            The action; with `state`, a tuple of the action, the next state and a dict of the module's other outputs.
        """
        found = self._act([observation], [state] if state is not None else None, policy_id, explore)
        actions, states, outputs = found
        if state is None:
            return actions[0]
        return actions[0], states[0], {name: value[0] for name, value in outputs.items()}

    def compute_actions(
        self,
        observations: Any,
        state: Any = None,
        *,
        policy_id: str = "default_policy",
        explore: bool | None = None,
    ) -> Any:
        """Return the actions for several observations, a dict by agent or a list.

        Args:
            observations: a dict or a list of observations.
            state: a dict or a list of recurrent states.
            policy_id: the id of the module.
            explore: True to sample actions, False for the best ones; None for the configuration's.
        """
        if isinstance(observations, dict):
            states = [state[name] for name in observations] if state else None
            actions, _, _ = self._act(list(observations.values()), states, policy_id, explore)
            return dict(zip(observations, actions, strict=True))
        actions, _, _ = self._act(list(observations), state, policy_id, explore)
        return actions

    def _act(
        self, observations: list[Any], states: list[Any] | None, policy_id: str, explore: bool | None
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return actions for environments, next states, and the module's other outputs, a row for each observation."""
        # Imported here so that a program that only writes a configuration does not load torch.
        import torch

        from skate.rllib.env.env_checks import misfit
        from skate.rllib.env.sampling.action_source import ActionSource
        from skate.rllib.env.single_agent_episode import SingleAgentEpisode

        runner, module = self.env_runner, self.get_module(policy_id)
        explore = self.config.explore if explore is None else explore
        space, actions_of = self._single_spaces(policy_id)
        for each in observations:
            if problem := misfit(space, each):
                raise ValueError(f"the observation does not fit the environment's space: it {problem}")
        episodes = [
            SingleAgentEpisode(observations=[each], observation_space=space, action_space=actions_of)
            for each in observations
        ]
        shared: dict[str, Any] = {}
        batch = runner._env_to_module(
            rl_module=module, batch={}, episodes=episodes, explore=explore, shared_data=shared, metrics=None
        )
        if states is not None:
            batch[Columns.STATE_IN] = {
                name: torch.stack([torch.as_tensor(np.asarray(each[name])) for each in states])
                for name in states[0]
            }
        with torch.no_grad():
            source = ActionSource(module, self._acting_generator())
            out = source.forward(batch, explore, self._steps_sampled())
            if Columns.ACTIONS not in out:
                out = {**out, Columns.ACTIONS: source.actions(out, explore)}
        next_states = _rows(out.pop(Columns.STATE_OUT, None), len(observations))
        extra = {name: value.numpy() for name, value in out.items() if torch.is_tensor(value)}
        extra.pop(Columns.ACTIONS, None)
        acted = runner._module_to_env(
            rl_module=module, batch=out, episodes=episodes, explore=explore, shared_data=shared, metrics=None
        )
        actions = acted.get(Columns.ACTIONS_FOR_ENV, acted[Columns.ACTIONS])
        return list(actions), next_states, extra

    def _single_spaces(self, policy_id: str) -> tuple[Any, Any]:
        """Return the spaces of one environment, or of one module of several."""
        spaces = self.spaces
        found: tuple[Any, Any] = spaces.get(INPUT_ENV_SINGLE_SPACES) or spaces[policy_id]
        return found

    def _acting_generator(self) -> Any:
        """Return the random stream of explored actions, one of its own so that acting does not change training."""
        import torch  # as above

        if self._actions_stream is None:
            self._actions_stream = torch.Generator()
            seed = self.config.seed
            if seed is None:
                self._actions_stream.seed()
            else:
                self._actions_stream.manual_seed(
                    int(np.random.SeedSequence([seed, _ROLE]).generate_state(1)[0])
                )
        return self._actions_stream


def _rows(columns: Any, count: int) -> list[Any]:
    """Return a dict of rows for each row of a dict of columns."""
    if not columns:
        return [{} for _ in range(count)]
    return [{name: value[row].numpy() for name, value in columns.items()} for row in range(count)]
