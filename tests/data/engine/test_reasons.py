"""Reasons of operators: they say nothing else than the policy decides."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from skate.data.compute import Compute
from skate.data.execution import policy, reasons
from skate.data.execution.limits import Limits
from skate.data.execution.operators import ChainRunning
from skate.data.execution.topology import Topology
from tests.data.engine.test_policy import bundle, chain, line

operators = st.fixed_dictionaries(
    {
        "queue": st.integers(0, 4),
        "running": st.integers(0, 5),
        "early": st.sampled_from([0, 0, policy.WINDOW]),
        "held": st.sampled_from([0, 100, 900, 5000]),
        "made": st.sampled_from([0, 100, 4000]),
        "most": st.sampled_from([None, None, 1, 3]),
        "pooled": st.booleans(),
    }
)


def built(drawn: list[dict[str, int]]) -> Topology:
    made = []
    for number, facts in enumerate(drawn):
        pool = (1, 1, 1) if facts["pooled"] else None
        operator = chain(f"step {number}", compute=Compute(actors=pool, tasks=facts["most"]))
        operator.queue.extend([bundle()] for _ in range(facts["queue"]))
        operator.running, operator.tasks = facts["running"], facts["running"] + 1
        operator.bytes_out = facts["made"]
        operator.outputs.ended = set(range(1, facts["early"] + 1))
        if facts["held"]:
            operator.outputs.add(0, bundle(size=facts["held"]))
        made.append(operator)
    return line(*made)


@settings(deadline=None)
@given(
    st.lists(operators, min_size=1, max_size=4), st.sampled_from([1000, 20_000]), st.sampled_from([1, 4, 100])
)
def test_one_that_is_not_chosen_has_a_reason_and_one_that_is_has_none(
    drawn: list[dict[str, int]], budget: int, slots: int
) -> None:
    topology, limits = built(drawn), Limits(budget, slots)
    chosen = {id(each) for each in policy.choose(topology, limits)}
    for operator in topology.operators:
        reason = reasons.why_not(operator, topology, limits)
        assert (reason.rule == reasons.NONE) == (id(operator) in chosen), (operator, reason)
        assert reason.text.endswith(".")


def read_and_map() -> tuple[ChainRunning, ChainRunning, Topology]:
    reading, mapping = chain("read", 9), chain("map")
    return reading, mapping, line(reading, mapping)


def test_the_words() -> None:
    reading, mapping, topology = read_and_map()
    limits = Limits(2000, 8)
    assert reasons.why_not(mapping, topology, limits) == (reasons.INPUT, "It waits for blocks of read.")
    mapping.take(bundle(size=900), 0)
    reading.tasks, reading.bytes_out = 1, 300
    assert reasons.why_not(reading, topology, limits) == (
        reasons.MEMORY, "Results of 900 B wait for map; one more with 300 B would exceed its share of 1000 B."
    )  # fmt: skip
    assert reasons.why_not(mapping, topology, limits, has_room=False) == (
        reasons.ACTORS,
        "All of its actors are busy.",
    )
    reading.running = 2
    assert reasons.why_not(reading, topology, Limits(2000, 2)).text == (
        "The run has 2 tasks in progress, as many as the session's CPUs allow."
    )
    reading.stop()
    assert reasons.why_not(reading, topology, limits) == (reasons.DONE, "It is done.")
