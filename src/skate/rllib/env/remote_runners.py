"""Remote runners: actors that the machine of gathering drives."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Any

import skate
from skate.exceptions import ActorDiedError, DeadlockError, GetTimeoutError, RayError, RayTaskError
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.runner_actor import RunnerActor
from skate.rllib.flow.open_calls import OpenCall, OpenCalls
from skate.rllib.flow.sample_round import Ask, Command, Fail, Finish, Gathering, Kill, Policy, Restart
from skate.train.run_session import ensure_session, with_preload
from skate.tune import registry

logger = logging.getLogger(__name__)

PRELOAD = ("torch",)


class RemoteRunners:
    """Env runners as actors; those that die are made anew.

    Args:
        config: The algorithm's config.
        runner_class: The class of the runners.
        count: Number of runners.
        kwargs: Passed to the runners.
    """

    def __init__(self, config: Any, runner_class: Any, count: int, kwargs: dict[str, Any]) -> None:
        self.config = config
        self._runner_class = runner_class
        self._kwargs = kwargs
        self._count = count
        self.spaces: dict[str, Any] = {}
        self.machine = Gathering(range(1, count + 1), policy_of(config))
        self._actors: dict[int, Any] = {}
        self._lanes: dict[int, bytes | None] = {}
        self._causes: dict[int, BaseException] = {}
        #: Version of the newest weights and a reference to them, and those of the connectors' states.
        self._newest: list[Any] = [0, None, 0, None]
        self.open = OpenCalls()
        #: Answers that were not there within a time-out.
        self.dropped = 0

    def start(self) -> dict[str, Any]:
        """Start all runners and return their spaces.

        Raises:
            Exception: The environment's own, if it cannot be made.
        """
        ensure_session(PRELOAD)
        for index in range(1, self._count + 1):
            self._actors[index] = self._make(index, recreated=False)
        try:
            self.spaces = skate.get([actor.ready.remote() for actor in self._actors.values()])[0]
        except DeadlockError as error:
            for actor in self._actors.values():  # most have not started, and could not close anything
                skate.kill(actor)
            self._actors = {}
            each = getattr(self.config, "num_cpus_per_env_runner", 1)
            raise RuntimeError(
                f"{self._count} env runners need {each:g} CPU each, but the session has "
                f"{skate.cluster_resources().get('CPU', 0):g} in all, and others may use some; set num_env_runners or "
                "num_cpus_per_env_runner lower, or give init() a larger num_cpus"
            ) from error
        except RayError as error:
            self.stop()
            raise own_error(error) from error
        return self.spaces

    def _make(self, index: int, recreated: bool) -> Any:
        config = self.config
        name = config.env if isinstance(config.env, str) else None
        creator = None
        if name is not None:
            with contextlib.suppress(KeyError):
                creator = name, registry.get_env(name)
        given = {**self._kwargs, "config": config, "worker_index": index, "num_workers": self._count}
        options = {
            "num_cpus": getattr(config, "num_cpus_per_env_runner", 1),
            "num_gpus": getattr(config, "num_gpus_per_env_runner", 0),
            "resources": getattr(config, "custom_resources_per_env_runner", None) or None,
            "runtime_env": with_preload(None, PRELOAD),
        }
        actor_class: Any = skate.remote(RunnerActor)
        return actor_class.options(**options).remote(
            self._runner_class, creator, {**given, "recreated_worker": recreated}
        )

    def healthy(self) -> list[int]:
        """Return the indices of runners that can sample."""
        return [index for index, one in self.machine.runners.items() if one.state in ("free", "busy")]

    def set_weights(self, state: Any, version: int) -> None:
        """Keep weights for the next asks."""
        self._newest[:2] = version, skate.put(state)

    def set_connectors(self, states: dict[str, Any]) -> None:
        """Keep the connectors' states that every runner takes before it does anything, also one that is made anew."""
        self._newest[2:] = self._newest[2] + 1, skate.put(states)

    def _take(self, index: int) -> list[Any]:
        """Let a runner take the newest weights and states, if there are any; return a list of references to the end."""
        if self._newest[1] is None and self._newest[3] is None:
            return []
        return [self._actors[index].take.remote(list(self._newest))]

    def gather(self, kwargs: dict[str, Any]) -> tuple[list[Rollout], list[dict[str, Any]]]:
        """Sample one fragment of each runner.

        Args:
            kwargs: Arguments of ``sample_rollout``; with ``as_episodes=True`` those of ``sample_episodes``.

        Returns:
            The fragments, or lists of episodes, and the metrics, in the order of the runners.
        """
        round_ = _Round(self, kwargs)
        try:
            return round_.run()
        except BaseException:
            round_.drop()
            raise

    def each(
        self,
        func: Any,
        kwargs: Any,
        indices: list[int] | None,
        timeout: float | None,
        as_references: bool = False,
    ) -> list[Any]:
        """Run a function on each runner; see `EnvRunnerGroup.foreach_env_runner`."""
        self._revive()
        chosen = [index for index in self.healthy() if indices is None or index in indices]
        refs = []
        for place, index in enumerate(chosen):
            each = func[place] if isinstance(func, list) else func
            given = kwargs[place] if isinstance(kwargs, list) else kwargs or {}
            skate.get(self._take(index))
            refs.append(self._actors[index].call.remote(each, (), given))
        if as_references:
            return refs
        results = []
        deadline = None if timeout is None else time.monotonic() + timeout
        for index, ref in zip(chosen, refs, strict=True):
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                results.append(skate.get(ref, timeout=left))
            except GetTimeoutError:
                if timeout:
                    self.dropped += 1
                    logger.warning("Env runner %d did not answer within %s seconds", index, timeout)
            except RayTaskError as error:
                raise own_error(error) from error
            except RayError as error:
                self._note(index, error)
                self._carry_out(self.machine.lost(index, time.monotonic()))
        return results

    def sample_each(self, func: Any) -> list[Any]:
        """Run a function that samples on each runner; see `EnvRunnerGroup.sample_on_each`."""
        policy = self.machine.policy
        answers: dict[int, Any] = {}
        raised: dict[int, BaseException] = {}
        self._revive()
        for _ in range(policy.max_errors):
            missing = [index for index in self.healthy() if index not in answers]
            for index in missing:
                skate.get(self._take(index))
            refs = [self._actors[index].call.remote(func, (), {}) for index in missing]
            for index, ref in zip(missing, refs, strict=True):
                try:
                    answers[index] = skate.get(ref)
                    self.machine.runners[index].fruitless = 0
                except RayError as error:
                    if is_raised(error):
                        raised[index] = error
                        if not (policy.restart or policy.ignore):
                            raise own_error(error) from error
                    self._note(index, error)
                    self._carry_out(self.machine.lost(index, time.monotonic(), raised=is_raised(error)))
        for index in raised.keys() & set(self.healthy()) - answers.keys():
            if not policy.ignore:
                raise own_error(raised[index]) from raised[index]
        return [answers[index] for index in sorted(answers)]

    def ask_each(self, func: Any, kwargs: Any, tag: str | None, indices: list[int] | None, most: int) -> int:
        """Run a function on each runner without waiting; see `EnvRunnerGroup.foreach_env_runner_async`."""
        self._revive()
        known = list(indices or self.machine.runners)
        given = next((each for each in (func, kwargs) if isinstance(each, list)), known)
        healthy = set(self.healthy())
        asked = 0
        for place, index in enumerate(self.open.deal(known, len(given))):
            if index not in healthy or self.open.count(index, tag) >= most:
                continue
            self._take(index)
            actor = self._actors[index]
            ref = actor.call.remote(
                func[place] if isinstance(func, list) else func,
                (),
                kwargs[place] if isinstance(kwargs, list) else kwargs or {},
            )
            self.open.calls[ref] = OpenCall(index, tag, actor)
            asked += 1
        return asked

    def fetch(self, tags: Any, timeout: float | None, as_references: bool) -> list[tuple[int, Any]]:
        """Return results of `ask_each`; see `EnvRunnerGroup.fetch_ready_async_reqs`."""
        refs = self.open.under(tags)
        ready = skate.wait(refs, num_returns=len(refs), timeout=timeout)[0] if refs else []
        results = []
        for ref in ready:
            call = self.open.calls.pop(ref)
            try:
                results.append((call.runner, ref if as_references else skate.get(ref)))
            except RayTaskError as error:
                raise own_error(error) from error
            except RayError as error:
                if self._actors.get(call.runner) is call.actor:
                    self._note(call.runner, error)
                    self._carry_out(self.machine.lost(call.runner, time.monotonic()))
        return results

    def probe(self) -> list[int]:
        """Wait for runners that are being made anew, and return those that can sample again."""
        before = set(self.healthy())
        self._carry_out(self.machine.tick(time.monotonic()))
        return [index for index in self.healthy() if index not in before]

    def _note(self, index: int, error: BaseException) -> None:
        self._causes[index] = own_error(error)
        logger.error("Env runner %d failed: %s", index, error)

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Restart):
                self._kill(command.runner)
                self._actors[command.runner] = self._make(command.runner, recreated=True)
        self._revive()

    def _revive(self) -> None:
        """Wait for runners that are being made anew outside of a round."""
        for index, one in self.machine.runners.items():
            if one.state == "restarting":
                try:
                    skate.get(self._actors[index].ready.remote())
                    self.machine.restarted(index, time.monotonic())
                except RayError as error:
                    self._note(index, error)
                    self.machine.lost(index, time.monotonic(), raised=is_raised(error))

    def _kill(self, index: int) -> None:
        skate.kill(self._actors[index])

    def stop(self) -> None:
        """End all runners, after their environments are closed."""
        actors, self._actors = list(self._actors.values()), {}
        refs = [actor.stop.remote() for actor in actors]
        skate.wait(refs, num_returns=len(refs), timeout=5.0) if refs else None
        for actor in actors:
            skate.kill(actor)


class _Round:
    """One round: carries out the machine's commands and gives it the events."""

    def __init__(self, runners: RemoteRunners, kwargs: dict[str, Any]) -> None:
        self.runners = runners
        self.machine = runners.machine
        self.kwargs = kwargs
        self.open: dict[Any, Ask | Restart] = {}
        self.results: dict[int, tuple[Rollout, dict[str, Any], int]] = {}
        self.end: Finish | Fail | None = None
        #: Lanes at the beginning of the round, from which a slot is sampled again.
        self.before = dict(runners._lanes)

    def run(self) -> tuple[list[Rollout], list[dict[str, Any]]]:
        self.carry_out(self.machine.begin(time.monotonic()))
        for index, one in self.machine.runners.items():
            if one.state == "restarting" and not any(
                command.runner == index for command in self.open.values()
            ):
                self.open[self.runners._actors[index].ready.remote()] = Restart(index)
        while not self.is_over():
            following = self.machine.next_time()
            wait = None if following is None else max(following - time.monotonic(), 0.0)
            done = skate.wait(list(self.open), num_returns=1, timeout=wait)[0] if self.open else []
            for ref in done:
                command = self.open.pop(ref)
                self.note(ref, command)
                if self.is_over():
                    break
            if not done:
                self.carry_out(self.machine.tick(time.monotonic()))
        if isinstance(self.end, Fail):
            raise self.runners._causes.get(self.end.runner) or RuntimeError(
                "no env runner is left; see the log for their errors"
            )
        if not self.results:
            causes = self.runners._causes
            raise RuntimeError("no env runner is left that could sample; their errors are in the log") from (
                next(iter(causes.values()), None)
            )
        order = sorted(self.results)
        return [self.results[slot][0] for slot in order], [self.results[slot][1] for slot in order]

    def is_over(self) -> bool:
        return self.machine.over

    def note(self, ref: Any, command: Ask | Restart) -> None:
        now = time.monotonic()
        try:
            value = skate.get(ref)
        except RayError as error:
            self.runners._note(command.runner, error)
            self.carry_out(self.machine.lost(command.runner, now, raised=is_raised(error)))
            return
        if isinstance(command, Restart):
            self.carry_out(self.machine.restarted(command.runner, now))
            return
        if self.machine.expects(command.runner, command.slot, command.attempt):
            rollout, metrics, lanes = value
            self.results[command.slot] = rollout, metrics, command.runner
            if self.machine.slots[command.slot].home == command.runner:
                self.runners._lanes[command.runner] = lanes
        self.carry_out(self.machine.arrived(command.runner, command.slot, command.attempt, now))

    def carry_out(self, commands: list[Command]) -> None:
        runners = self.runners
        for command in commands:
            if isinstance(command, Ask):
                # A runner that was made anew has fresh lanes; it begins where its predecessor began.
                again = command.attempt > 1 and self.machine.slots[command.slot].home == command.runner
                lanes = self.before.get(command.runner) if again else None
                ref = runners._actors[command.runner].sample_part.remote(
                    list(runners._newest), lanes, self.kwargs
                )
                self.open[ref] = command
            elif isinstance(command, Restart):
                runners._kill(command.runner)
                runners._actors[command.runner] = runners._make(command.runner, recreated=True)
                self.open[runners._actors[command.runner].ready.remote()] = command
            elif isinstance(command, Kill):
                seconds = self.machine.policy.timeout_s
                error = TimeoutError(
                    f"env runner {command.runner} did not sample its part within sample_timeout_s={seconds}"
                )
                runners._note(command.runner, error)
                self.open = {ref: each for ref, each in self.open.items() if each.runner != command.runner}
                runners._kill(command.runner)
            else:
                self.end = command

    def drop(self) -> None:
        """End a round that was interrupted: runners that are still at it are made anew."""
        if not self.machine.over:
            self.machine.over = True
            for command in list(self.open.values()):
                if isinstance(command, Ask):
                    self.runners._kill(command.runner)
                    self.machine.lost(command.runner, time.monotonic())


def policy_of(config: Any) -> Policy:
    """Return how losses are treated, from the config's fields of fault tolerance."""
    return Policy(
        restart=bool(getattr(config, "restart_failed_env_runners", True)),
        ignore=bool(getattr(config, "ignore_env_runner_failures", False)),
        max_restarts=int(getattr(config, "max_num_env_runner_restarts", 1000)),
        delay_s=float(getattr(config, "delay_between_env_runner_restarts_s", 60.0)),
        timeout_s=getattr(config, "sample_timeout_s", 60.0),
    )


def is_raised(error: BaseException) -> bool:
    """True if the user's code raised, in a call or in the constructor of the actor."""
    return isinstance(error, RayTaskError) or (
        isinstance(error, ActorDiedError) and isinstance(error.cause, RayTaskError)
    )


def own_error(error: BaseException) -> BaseException:
    """Return the exception that the user's code raised, or the error itself."""
    cause: Any = error
    if isinstance(cause, ActorDiedError) and isinstance(cause.cause, RayTaskError):
        cause = cause.cause
    if isinstance(cause, RayTaskError) and hasattr(cause, "as_instanceof_cause"):
        cause = cause.as_instanceof_cause()
    found: BaseException = cause
    return found
