"""Games of OpenSpiel as environments with several agents."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.env.multi_agent_env import MultiAgentEnv

#: Reward of an agent for a move that the game does not allow; a random one is made instead.
PENALTY = -0.1


def try_import_pyspiel(error: bool = False) -> Any:
    """Return the module `pyspiel`, or None if it is not installed.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: It is not installed, and `error` is set.
    """
    try:
        import pyspiel  # optional
    except ImportError:
        if error:
            raise ImportError("pyspiel is not installed; pip install open_spiel") from None
        return None
    return pyspiel


def try_import_open_spiel(error: bool = False) -> Any:
    """Return the module `open_spiel`, or None if it is not installed; see `try_import_pyspiel`."""
    try:
        import open_spiel  # optional
    except ImportError:
        if error:
            raise ImportError("open_spiel is not installed; pip install open_spiel") from None
        return None
    return open_spiel


class OpenSpielEnv(MultiAgentEnv):
    """A game of OpenSpiel; the agents are the numbers of its players.

    Rewards are the returns of the game so far. An action that is not legal costs 0.1 and is replaced by a random one.

    Args:
        env: The game, as ``pyspiel.load_game()`` returns it.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents = self.possible_agents = list(range(env.num_players()))
        self.type = env.get_type()
        self.state: Any = None
        size, actions = env.observation_tensor_size(), env.num_distinct_actions()
        self.observation_spaces = {
            agent: gym.spaces.Box(-np.inf, np.inf, (size,), np.float32) for agent in self.agents
        }
        self.action_spaces = {agent: gym.spaces.Discrete(actions) for agent in self.agents}
        self.observation_space = gym.spaces.Dict(self.observation_spaces)
        self.action_space = gym.spaces.Dict(self.action_spaces)
        super().__init__()

    @property
    def _in_turns(self) -> bool:
        return str(self.type.dynamics).endswith("SEQUENTIAL")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin a game."""
        super().reset(seed=seed, options=options)
        self.state = self.env.new_initial_state()
        return self._observed(), {}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Let the player whose turn it is act, or all of them in a game without turns.

        Args:
            action_dict: Actions by player.
        """
        self._draw_chances()
        penalties: dict[int, float] = {}
        if self._in_turns:
            player = self.state.current_player()
            self.state.apply_action(self._legal(player, action_dict[player], penalties))
        else:
            self.state.apply_actions(
                [self._legal(player, action_dict[player], penalties) for player in self.agents]
            )
        observations = self._observed()
        rewards = {
            player: value + penalties.get(player, 0.0) for player, value in enumerate(self.state.returns())
        }
        over = bool(self.state.is_terminal())
        terminateds = {**dict.fromkeys(self.agents, over), "__all__": over}
        truncateds = {**dict.fromkeys(self.agents, False), "__all__": False}
        return observations, rewards, terminateds, truncateds, {}

    def _legal(self, player: int, action: Any, penalties: dict[int, float]) -> int:
        allowed = self.state.legal_actions(player)
        if int(action) in allowed:
            return int(action)
        penalties[player] = PENALTY
        return int(self.np_random.choice(allowed))

    def _draw_chances(self) -> None:
        """Draw what the game leaves to chance, such as cards."""
        while self.state.is_chance_node():
            actions, chances = zip(*self.state.chance_outcomes(), strict=True)
            self.state.apply_action(int(self.np_random.choice(actions, p=chances)))

    def _observed(self) -> dict[int, Any]:
        self._draw_chances()
        if self.state.is_terminal():
            return {}
        players = [self.state.current_player()] if self._in_turns else self.agents
        return {
            player: np.asarray(self.state.observation_tensor(player), np.float32).reshape(-1)
            for player in players
        }

    def render(self) -> None:
        """Print the state of the game."""
        print(self.state)
