"""LearnerGroup: one learner in this process, or several that update together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import skate
from skate.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from skate.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE
from skate.rllib.core.learner.peers import (
    GradientGroup,
    Peer,
    PeerLost,
    call_with,
    free_port,
    shares_of,
    shares_of_episodes,
    steps_of,
    without_references,
)
from skate.rllib.core.learner.torch.torch_learner import TorchLearner
from skate.rllib.utils.checkpoints import Checkpointable
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger

logger = logging.getLogger(__name__)

#: Deaths of learners in one update after which it fails.
_MAX_DEATHS = 3
#: Seconds for the other learners to notice that one is gone; they are ended after that.
_END_SECONDS = 30.0


class LearnerGroup(Checkpointable):
    """The learners of an algorithm: one in this process, and with ``config.num_learners`` over 1 others in actors.

    Each learner updates on its share of the samples. Gradients are averaged, so all have the same weights.

    Args:
        config: The algorithm's config; ``config.learner_class`` is the class of learners.
        module_spec: Spec of the modules. Default: the config's.
        placement_group: Taken for compatibility.
    """

    def __init__(self, *, config: Any, module_spec: Any = None, placement_group: Any = None) -> None:
        self.config = config
        self._module_spec = module_spec
        self._learner: Any = config.learner_class(config=config, module_spec=module_spec)
        self._learner.build()
        self._peers: list[Any] = []
        size = int(getattr(config, "num_learners", 0) or 0)
        if size > 1:
            self._start_peers(size)

    def _start_peers(self, size: int) -> None:
        """Start the other learners with the state of the first."""
        config = self.config
        cpus = getattr(config, "num_cpus_per_learner", 1)
        options = {
            "num_cpus": cpus if isinstance(cpus, int | float) else 1,
            "num_gpus": getattr(config, "num_gpus_per_learner", 0) or 0,
        }
        made = skate.remote(Peer).options(**options)
        state = self._learner.get_state(not_components="metrics_logger")
        self._peers = [made.remote(config, self._module_spec, state) for _ in range(size - 1)]
        skate.get([peer.ping.remote() for peer in self._peers])
        host, port = skate.util.get_node_ip_address(), free_port()
        joined = [peer.join.remote(host, port, rank, size) for rank, peer in enumerate(self._peers, start=1)]
        self._learner.gradient_group = GradientGroup(host, port, 0, size)
        skate.get(joined)

    @property
    def is_local(self) -> bool:
        """True if the only learner is in this process."""
        return not self._peers

    @property
    def is_remote(self) -> bool:
        """True if some learners are actors."""
        return not self.is_local

    def __len__(self) -> int:
        """Return the number of learners; 0, as Ray does, if the only one is in this process."""
        return 1 + len(self._peers) if self._peers else 0

    def __bool__(self) -> bool:
        return True

    def update(
        self, rollouts: Any = None, *, async_update: bool = False, return_state: bool = False, **kwargs: Any
    ) -> list[Any]:
        """Update the modules; see :meth:`Learner.update`.

        Args:
            rollouts: Fragments of columns, a list or a dict of lists by module id.
            async_update: Not available: an update is complete when this returns.
            return_state: True to have the modules' state in the first of the results, under
                ``"_rl_module_state_after_update"``.
            **kwargs: Arguments of :meth:`Learner.update`. Besides ``batch`` and ``episodes`` these may be ``batches``, a list
                of batches, ``batch_refs``, references to batches, and ``episodes_refs``, references to lists of episodes.

        Returns:
            What each learner measured.

        Raises:
            ValueError: An asynchronous update was asked for, or more than one kind of samples was given.
        """
        if async_update:
            raise ValueError(
                "async_update=True is of IMPALA and APPO, which are not available; leave it out to update now"
            )
        results = self._updated(rollouts, **without_references(kwargs))
        if return_state:
            results[0]["_rl_module_state_after_update"] = self._learner.get_state(
                components=COMPONENT_RL_MODULE, inference_only=True
            )
        return results

    def _updated(self, rollouts: Any, **kwargs: Any) -> list[Any]:
        if not self._peers:
            return [self._learner.update(rollouts, **kwargs)]
        kind = next((name for name in ("batch", "episodes") if kwargs.get(name) is not None), "batch")
        other = {name: kwargs.pop(name, None) for name in ("batch", "episodes")}[kind]
        split = shares_of_episodes if kind == "episodes" else shares_of
        shares = split(other if rollouts is None else rollouts, len(self))
        size = kwargs.get("minibatch_size")
        if size and not kwargs.get("num_total_minibatches"):
            # Learners wait for each other in every minibatch, so all need the same number of them.
            most = max(steps_of(share) for share in shares)
            kwargs["num_total_minibatches"] = max(1, -(-most * kwargs.get("num_epochs", 1) // size))
        elif not size:
            kwargs["num_total_minibatches"] = kwargs.get("num_epochs", 1)
        arguments: list[tuple[Any, dict[str, Any]]]
        if rollouts is None:
            arguments = [(None, {**kwargs, kind: share}) for share in shares]
        else:
            arguments = [(share, kwargs) for share in shares]
        return self._update_together(arguments)

    def update_into(self, metrics: MetricsLogger, key: str, **kwargs: Any) -> None:
        """Update the modules, and merge what was measured into a logger.

        Args:
            metrics: The logger of the algorithm.
            key: Key to merge under.
            **kwargs: Arguments of :meth:`Learner.update`.
        """
        learner = self._learner
        is_plain = getattr(type(learner), "update", None) is TorchLearner.update and "update" not in vars(
            learner
        )
        if self._peers or not is_plain:
            metrics.aggregate(self.update(**kwargs), key=key)
        else:
            learner.run_updates(**kwargs)
            metrics.absorb(learner.metrics, key=key)

    def _update_together(self, arguments: list[tuple[Any, dict[str, Any]]]) -> list[Any]:
        """Update on the shares of all learners; after the death of one, again from the state before."""
        before = self._learner.get_state()
        for deaths in range(1, _MAX_DEATHS + 1):
            running = [
                peer.update.remote(*each) for peer, each in zip(self._peers, arguments[1:], strict=True)
            ]
            share, own = arguments[0]
            try:
                return [self._learner.update(share, **own), *skate.get(running)]
            except BaseException as error:  # whatever it is, the others must not wait for this learner
                cause = self._cause_of(error, running)
                self._learner.set_state(before)
                self._restart_peers()
                if not isinstance(cause, RayActorError) or deaths == _MAX_DEATHS:
                    raise cause from error
                logger.error(
                    "A learner died; all of them start again from the state before the update: %s", cause
                )
        raise AssertionError("the loop has returned or raised")

    def _cause_of(self, error: BaseException, running: list[Any]) -> BaseException:
        """Return why an update failed: what was raised first, here or by another learner, or the death of one."""
        self._leave_group()  # the others would wait for the gradients of this learner
        if not isinstance(error, PeerLost | RayError):
            return error
        died: BaseException | None = None
        for ref in running:
            try:
                skate.get(ref, timeout=_END_SECONDS)
            except RayTaskError as failed:
                raised = failed.as_instanceof_cause()
                if not isinstance(raised, PeerLost):
                    return raised
            except RayActorError as failed:
                died = failed
            except GetTimeoutError:
                continue
        return died or error

    def _restart_peers(self) -> None:
        size = len(self)
        self._end_peers()
        self._start_peers(size)

    def _leave_group(self) -> None:
        group = getattr(self._learner, "gradient_group", None)
        if group is not None:
            group.close()
            self._learner.gradient_group = None

    def _end_peers(self) -> None:
        for peer in self._peers:
            skate.kill(peer)
        self._peers = []
        self._leave_group()

    @property
    def has_own_connectors(self) -> bool:
        """True if the learners have connectors besides the default ones, so that they have to be given episodes."""
        return bool(self._learner.has_own_connectors)

    @property
    def num_steps_back(self) -> int:
        """The number of steps before their own that episodes have to remember for the learners' connectors."""
        return int(self._learner.num_steps_back)

    def foreach_learner(self, func: Callable[..., Any] | str, **kwargs: Any) -> list[Any]:
        """Call a function with every learner, or a method by its name.

        Args:
            func: A function of the learner, or the name of a method.
            **kwargs: Arguments of the function.

        Returns:
            One result per learner.
        """
        running = [peer.call.remote(func, kwargs) for peer in self._peers]
        own = call_with(self._learner, func, kwargs)
        try:
            return [own, *skate.get(running)]
        except RayActorError as died:
            logger.error("A learner died; it starts again with the state of the first: %s", died)
            self._restart_peers()
            return [own, *skate.get([peer.call.remote(func, kwargs) for peer in self._peers])]

    def take_td_errors(self) -> dict[str, Any]:
        """Return the errors of all rows since the last call, by module id, for prioritized replay."""
        if not self._peers:
            own: dict[str, Any] = self._learner.take_td_errors()
            return own
        found: list[dict[str, Any]] = self.foreach_learner("take_td_errors")
        return {name: np.concatenate([errors[name] for errors in found]) for name in found[0]}

    def get_weights(self, module_ids: Collection[str] | None = None) -> dict[str, Any]:
        """Return the parameters of modules as numpy arrays.

        Args:
            module_ids: The modules. Default: all.
        """
        state: dict[str, Any] = self._learner.module.get_state(components=module_ids)
        return state

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Take parameters by module id."""
        self.foreach_learner(lambda learner: learner.module.set_state(weights))

    def add_module(self, *, module_id: str, module_spec: Any, **kwargs: Any) -> Any:
        """Add a module to every learner; see :meth:`Learner.add_module`."""
        return self.foreach_learner("add_module", module_id=module_id, module_spec=module_spec, **kwargs)[0]

    def remove_module(self, module_id: str, **kwargs: Any) -> Any:
        """Remove a module from every learner; see :meth:`Learner.remove_module`."""
        return self.foreach_learner("remove_module", module_id=module_id, **kwargs)[0]

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        if not self._check_component(COMPONENT_LEARNER, components, not_components):
            return {}
        inner = self._get_subcomponents(COMPONENT_LEARNER, components)
        left_out = self._get_subcomponents(COMPONENT_LEARNER, not_components)
        return {COMPONENT_LEARNER: self._learner.get_state(inner, not_components=left_out, **kwargs)}

    def set_state(self, state: dict[str, Any]) -> None:
        if COMPONENT_LEARNER in state:
            self.foreach_learner(lambda learner: learner.set_state(state[COMPONENT_LEARNER]))
        elif COMPONENT_RL_MODULE in state:
            self.set_weights(state[COMPONENT_RL_MODULE])

    def read_from(self, folder: Path) -> None:
        super().read_from(folder)
        self._share_state()

    def component_restored(self, component: str) -> None:
        self._share_state()

    def _share_state(self) -> None:
        """Give the other learners the state of the first, which is the one that is restored."""
        if self._peers:
            state = self._learner.get_state(not_components="metrics_logger")
            self.foreach_learner("set_state", state=state)

    def load_module_state(
        self,
        *,
        multi_rl_module_ckpt_dir: str | None = None,
        modules_to_load: Collection[str] | None = None,
        rl_module_ckpt_dirs: Mapping[str, str] | None = None,
    ) -> None:
        """Load modules that were saved alone.

        Args:
            multi_rl_module_ckpt_dir: Folder of a saved MultiRLModule.
            modules_to_load: Ids of the modules to load from there. Default: all.
            rl_module_ckpt_dirs: Folders of saved modules by id; they go before the one of all.

        Raises:
            FileNotFoundError: There is no checkpoint in a folder.
            ValueError: No folder is given, or a module is not there.
        """
        if not multi_rl_module_ckpt_dir and (modules_to_load or not rl_module_ckpt_dirs):
            raise ValueError(
                f"load_module_state() needs multi_rl_module_ckpt_dir or rl_module_ckpt_dirs, and modules_to_load the "
                f"former; got multi_rl_module_ckpt_dir={multi_rl_module_ckpt_dir!r}, "
                f"modules_to_load={modules_to_load!r}, rl_module_ckpt_dirs={rl_module_ckpt_dirs!r}"
            )
        whole = f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}"
        if multi_rl_module_ckpt_dir and modules_to_load is None:
            self.restore_from_path(multi_rl_module_ckpt_dir, component=whole)
        folders = {name: f"{multi_rl_module_ckpt_dir}/{name}" for name in modules_to_load or ()}
        for module_id, folder in {**folders, **(rl_module_ckpt_dirs or {})}.items():
            self.restore_from_path(folder, component=f"{whole}/{module_id}")

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"config": self.config, "module_spec": self._module_spec}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        return [(COMPONENT_LEARNER, self._learner)]

    def shutdown(self) -> None:
        """Release the learners."""
        self._learner.shutdown()
        self._end_peers()
