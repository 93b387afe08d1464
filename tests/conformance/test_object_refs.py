"""Object refs: identity, text, pickling, travel between processes, and when values are freed."""

from __future__ import annotations

import gc
import pickle
import threading

import numpy as np
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


def test_core_13_hex_of_a_ref_has_56_digits():
    text = ray.put(1).hex()
    assert len(text) == 56
    int(text, 16)


def test_core_13_hex_and_binary_of_a_ref_agree():
    ref = ray.put(1)
    assert ref.binary().hex() == ref.hex()


def test_core_13_repr_of_a_ref_shows_its_hex():
    ref = ray.put(1)
    assert repr(ref) == f"ObjectRef({ref.hex()})"


def test_core_13_task_id_of_a_ref_is_that_of_its_task():
    @ray.remote
    def task_id():
        return ray.get_runtime_context().get_task_id()

    ref = task_id.remote()
    assert ref.task_id().hex() == ray.get(ref)


def test_core_13_job_id_of_a_ref_is_that_of_the_driver():
    assert ray.put(1).job_id().hex() == ray.get_runtime_context().get_job_id()


def test_core_13_results_of_one_task_have_one_task_id():
    @ray.remote(num_returns=2)
    def pair():
        return 1, 2

    first, second = pair.remote()
    assert first.task_id() == second.task_id()
    assert first != second


def test_core_13_ref_is_not_nil():
    assert not ray.put(1).is_nil()


def test_core_13_equal_refs_hash_alike():
    ref = ray.put(1)
    (same,) = ray.get(echo.remote([ref]))
    assert same == ref
    assert hash(same) == hash(ref)
    assert len({ref, same}) == 1


def test_core_13_ref_is_not_equal_to_its_hex_or_its_value():
    ref = ray.put(1)
    assert ref != ref.hex()
    assert ref != 1


def test_core_13_refs_can_be_dictionary_keys():
    refs = [echo.remote(i) for i in range(5)]
    number = {ref: i for i, ref in enumerate(refs)}
    ready, _ = ray.wait(refs[::-1], num_returns=5)
    assert [number[ref] for ref in ready] == [4, 3, 2, 1, 0]


def test_core_13_ref_can_be_pickled_by_the_user():
    ref = ray.put("out of band")
    again = pickle.loads(pickle.dumps(ref))
    assert again == ref
    assert ray.get(again) == "out of band"


def test_core_13_ref_can_be_sent_to_a_task_and_back():
    ref = ray.put("there and back")
    (back,) = ray.get(echo.remote([ref]))
    assert ray.get(back) == "there and back"


def test_core_13_ref_of_a_pending_task_can_be_sent_on(gate):
    release = gate("release")

    @ray.remote
    def slow():
        release.wait()
        return "late"

    @ray.remote
    def fetch(refs):
        return ray.get(refs[0])

    fetched = fetch.remote([slow.remote()])
    release.open()
    assert ray.get(fetched) == "late"


def test_core_13_remote_function_inside_a_container_can_be_sent_to_a_task():
    @ray.remote
    def call(functions):
        return ray.get(functions["echo"].remote("called"))

    assert ray.get(call.remote({"echo": echo})) == "called"


def test_ref_made_in_a_task_and_returned_in_a_list_is_usable():
    @ray.remote
    def submit():
        return [echo.remote("child")]

    (ref,) = ray.get(submit.remote())
    assert ray.get(ref) == "child"


def test_ref_kept_in_an_actor_keeps_its_value():
    @ray.remote
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def read(self):
            return ray.get(self.refs[0])

    keeper = Keeper.remote()
    ref = ray.put("kept")
    ray.get(keeper.keep.remote([ref]))
    del ref
    gc.collect()
    assert ray.get(keeper.read.remote()) == "kept"


def test_core_39_ref_inside_a_stored_value_keeps_its_value():
    outer = ray.put([ray.put("inner")])
    gc.collect()
    assert ray.get(ray.get(outer)[0]) == "inner"


def test_core_39_ref_three_levels_deep_keeps_its_value():
    outer = ray.put([ray.put([ray.put(np.full(200_000, 7))])])
    gc.collect()
    (middle,) = ray.get(outer)
    (inner,) = ray.get(middle)
    del outer, middle
    gc.collect()
    assert ray.get(inner)[0] == 7


def test_core_39_argument_dropped_by_the_caller_reaches_the_task(gate):
    release = gate("release")

    @ray.remote(num_cpus=2)
    def block():
        release.wait()

    @ray.remote
    def first(array):
        return int(array[0])

    blocker = block.remote()
    ref = first.remote(ray.put(np.full(200_000, 9)))
    gc.collect()
    release.open()
    ray.get(blocker)
    assert ray.get(ref) == 9


def test_core_39_array_outlives_its_ref():
    ref = ray.put(np.arange(300_000))
    array = ray.get(ref)
    del ref
    gc.collect()
    ray.get([ray.put(np.zeros(300_000)) for _ in range(3)])
    assert array[-1] == 299_999


def test_core_39_slice_of_an_array_outlives_array_and_ref():
    ref = ray.put(np.arange(300_000))
    part = ray.get(ref)[1000:1010]
    del ref
    gc.collect()
    ray.get([ray.put(np.zeros(300_000)) for _ in range(3)])
    assert part.tolist() == list(range(1000, 1010))


def test_core_39_array_kept_by_an_actor_outlives_the_callers_ref():
    @ray.remote
    class Keeper:
        def keep(self, array):
            self.array = array

        def total(self):
            return int(self.array.sum())

    keeper = Keeper.remote()
    ray.get(keeper.keep.remote(ray.put(np.ones(300_000))))
    gc.collect()
    ray.get([ray.put(np.zeros(300_000)) for _ in range(3)])
    assert ray.get(keeper.total.remote()) == 300_000


def test_dropping_a_pending_ref_lets_the_task_run(gate):
    done = gate("done")

    @ray.remote
    def work():
        done.open()

    work.remote()
    gc.collect()
    done.wait()


def test_dropping_the_ref_of_a_failing_task_harms_nothing():
    @ray.remote
    def fail():
        raise ValueError("unobserved")

    fail.remote()
    gc.collect()
    assert ray.get(echo.remote("after")) == "after"


@pytest.mark.parametrize(
    ("name", "digits"),
    [("JobID", 8), ("ActorID", 32), ("TaskID", 48), ("NodeID", 56), ("WorkerID", 56)],
)
def test_core_13_id_class_round_trips_through_hex(name, digits):
    kind = getattr(ray, name)
    text = "ab" * (digits // 2)
    identifier = kind.from_hex(text)
    assert identifier.hex() == text
    assert identifier == kind(bytes.fromhex(text))
    assert hash(identifier) == hash(kind.from_hex(text))


@pytest.mark.parametrize("name", ["JobID", "ActorID", "TaskID", "NodeID", "WorkerID"])
def test_core_13_nil_id_says_so(name):
    kind = getattr(ray, name)
    assert kind.nil().is_nil()


@pytest.mark.parametrize("name", ["JobID", "ActorID", "TaskID", "NodeID", "WorkerID"])
def test_core_13_id_of_the_wrong_length_is_refused(name):
    with pytest.raises(ValueError):
        getattr(ray, name)(b"too short for any of them"[:3])


def test_a_function_is_called_with_the_value_or_the_failure():
    seen = []

    @ray.remote
    def divide(by):
        return 1 / by

    for by in (1, 0):
        done = threading.Event()
        divide.remote(by)._on_completed(lambda found, done=done: (seen.append(found), done.set()))
        assert done.wait(20)
    assert seen[0] == 1.0 and isinstance(seen[1], ray.exceptions.RayTaskError)


def test_core_13_a_variable_forbids_to_pickle_refs_outside_of_values():
    @ray.remote
    def pickled():
        return ray.cloudpickle.dumps(ray.put(1))

    variables = {"RAY_allow_out_of_band_object_ref_serialization": "0"}
    forbidden = pickled.options(runtime_env={"env_vars": variables})
    assert ray.get(ray.cloudpickle.loads(ray.get(pickled.remote()))) == 1
    with pytest.raises(ray.exceptions.OufOfBandObjectRefSerializationException):
        ray.get(forbidden.remote())
