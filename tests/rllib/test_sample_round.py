"""The machine of gathering: rounds are whole under any losses, nothing counts twice, errors come out."""

from __future__ import annotations

import random

import pytest

from skate.rllib.flow.sample_round import Ask, Command, Fail, Finish, Gathering, Kill, Policy, Restart


def test_a_quiet_round() -> None:
    machine = Gathering([1, 2])
    assert machine.begin(0.0) == [Ask(1, 0, 1), Ask(2, 1, 1)]
    assert machine.arrived(2, 1, 1, 1.0) == []
    assert machine.arrived(1, 0, 1, 1.0) == [Finish()]
    assert machine.begin(2.0) == [Ask(1, 0, 1), Ask(2, 1, 1)]


def test_a_dead_runner_is_restarted_at_once_and_samples_its_own_slot_again() -> None:
    machine = Gathering([1, 2])
    machine.begin(0.0)
    assert machine.lost(1, 1.0) == [Restart(1)]
    assert machine.arrived(2, 1, 1, 1.5) == []
    assert machine.restarted(1, 2.0) == [Ask(1, 0, 2)]
    assert machine.arrived(1, 0, 1, 2.5) == [], "an answer to an older ask"
    assert machine.arrived(1, 0, 2, 3.0) == [Finish()]


def test_the_second_restart_in_a_row_waits_and_another_runner_samples_the_slot() -> None:
    machine = Gathering([1, 2], Policy(delay_s=60))
    machine.begin(0.0)
    machine.lost(1, 1.0)
    machine.restarted(1, 2.0)
    assert machine.lost(1, 3.0) == []
    assert machine.arrived(2, 1, 1, 4.0) == [Ask(2, 0, 3)]
    assert machine.next_time() == 63.0
    assert machine.arrived(2, 0, 3, 5.0) == [Finish()]
    assert machine.tick(63.0) == [Restart(1)]


def test_a_restart_that_all_work_waits_for_is_made_at_once() -> None:
    machine = Gathering([1], Policy(delay_s=60))
    machine.begin(0.0)
    assert machine.lost(1, 1.0) == [Restart(1)]
    machine.restarted(1, 1.5)
    assert machine.lost(1, 2.0) == [Restart(1)]


def test_an_environment_that_always_raises_fails_the_round() -> None:
    machine = Gathering([1], Policy(max_errors=3))
    machine.begin(0.0)
    for _ in range(2):
        assert machine.lost(1, 1.0, raised=True) == [Restart(1)]
        machine.restarted(1, 1.0)
    assert machine.lost(1, 1.0, raised=True) == [Fail(1)]


def test_without_restarts_the_error_comes_out_or_the_others_do_the_work() -> None:
    machine = Gathering([1, 2], Policy(restart=False))
    machine.begin(0.0)
    assert machine.lost(1, 1.0, raised=True) == [Fail(1)]
    machine = Gathering([1, 2], Policy(restart=False, ignore=True))
    machine.begin(0.0)
    assert machine.lost(1, 1.0) == []
    assert machine.arrived(2, 1, 1, 2.0) == [Ask(2, 0, 2)]
    assert machine.lost(2, 3.0) == [Finish()], "nobody is left, and failures are ignored"


def test_a_hung_runner_is_ended_after_the_time_out() -> None:
    machine = Gathering([1, 2], Policy(timeout_s=10))
    machine.begin(0.0)
    machine.arrived(2, 1, 1, 1.0)
    assert machine.next_time() == 10.0
    assert machine.tick(9.0) == []
    assert machine.tick(10.0) == [Kill(1), Restart(1)]


class Scene:
    """Runs rounds of a machine under seeded losses."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        self.policy = Policy(
            restart=dice.random() < 0.8, ignore=dice.random() < 0.5, max_restarts=dice.choice([0, 3, 1000]),
            delay_s=dice.choice([0.0, 5.0, 60.0]), timeout_s=dice.choice([None, 10.0]),
            max_errors=dice.choice([1, 3]), max_losses=dice.choice([4, 10]),
        )  # fmt: skip
        self.machine = Gathering(range(1, dice.randint(2, 5)), self.policy)
        self.now = 0.0
        self.open: list[Ask | Restart] = []
        self.counted: dict[int, int] = {}
        self.end: Command | None = None

    def take(self, commands: list[Command]) -> None:
        self.machine.check()
        for command in commands:
            assert self.end is None or isinstance(command, Restart), f"{command} after {self.end}"
            if isinstance(command, Ask | Restart):
                self.open.append(command)
            elif isinstance(command, Kill):
                self.open = [each for each in self.open if each.runner != command.runner]
            else:
                self.end = command

    def round(self, trouble: float) -> None:
        self.end, self.counted = None, {}
        self.take(self.machine.begin(self.now))
        for _ in range(400):
            if self.end is not None:
                break
            self.now += self.dice.random()
            if not self.open or self.dice.random() < 0.05:
                following = self.machine.next_time()
                assert self.open or following is not None, f"nothing will ever happen: {self.machine}"
                self.now = max(self.now, following or 0.0)
                self.take(self.machine.tick(self.now))
                continue
            event = self.open.pop(self.dice.randrange(len(self.open)))
            if self.dice.random() < trouble:
                self.take(self.machine.lost(event.runner, self.now, raised=self.dice.random() < 0.5))
            elif isinstance(event, Restart):
                self.take(self.machine.restarted(event.runner, self.now))
            else:
                if self.machine.expects(event.runner, event.slot, event.attempt):
                    self.counted[event.slot] = self.counted.get(event.slot, 0) + 1
                self.take(self.machine.arrived(event.runner, event.slot, event.attempt, self.now))
        assert self.end is not None, f"the round does not end: {self.machine}"
        # What is still under way belongs to no round; a runner that was asked and not awaited is dropped by the group.
        for each in list(self.open):
            self.open.remove(each)
            if isinstance(each, Restart):
                self.take(self.machine.restarted(each.runner, self.now))
            else:
                self.take(self.machine.lost(each.runner, self.now))


@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_thousands_of_scenes(start: int) -> None:
    finished = failed = 0
    for seed in range(start, start + 500):
        scene = Scene(seed)
        for number in range(3):
            scene.round(trouble=0.3 if number < 2 else 0.0)
            assert all(count == 1 for count in scene.counted.values()), f"seed {seed} counted a slot twice"
            states = [slot.state for slot in scene.machine.slots]
            if isinstance(scene.end, Finish):
                finished += 1
                done = {slot for slot, state in enumerate(states) if state == "done"}
                assert done == set(scene.counted), f"seed {seed}: {scene.machine}"
                assert scene.policy.ignore or len(done) == len(states), (
                    f"seed {seed} finished a part of a round"
                )
            else:
                failed += 1
                assert not scene.policy.ignore, f"seed {seed} failed although failures are ignored"
                break
    assert finished > 300 and failed > 30, "the scenes have to reach both ends"
