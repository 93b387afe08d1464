"""Small parts of ray.tune that programs use beside searches."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune import registry
from ray.tune.callback import Callback, CallbackList
from ray.tune.experiment.trial import ExportFormat, Trial
from ray.tune.search.variant_generator import assign_value, generate_variants, parse_spec_vars
from ray.tune.utils import log
from ray.tune.utils.mock import TrialStatusSnapshot
from ray.tune.utils.serialization import TuneFunctionDecoder, TuneFunctionEncoder
from ray.tune.utils.util import Tee, retry_fn, warn_if_slow


class RecordingCallback(Callback):
    def __init__(self, state: Any = None) -> None:
        self.state = state
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def get_state(self) -> Any:
        return self.state

    def set_state(self, state: Any) -> None:
        self.state = state


HOOKS = {
    "setup": {},
    "on_step_begin": {"iteration": 1, "trials": []},
    "on_step_end": {"iteration": 1, "trials": []},
    "on_trial_start": {"iteration": 1, "trials": [], "trial": None},
    "on_trial_restore": {"iteration": 1, "trials": [], "trial": None},
    "on_trial_save": {"iteration": 1, "trials": [], "trial": None},
    "on_trial_result": {"iteration": 1, "trials": [], "trial": None, "result": {}},
    "on_trial_complete": {"iteration": 1, "trials": [], "trial": None},
    "on_trial_recover": {"iteration": 1, "trials": [], "trial": None},
    "on_trial_error": {"iteration": 1, "trials": [], "trial": None},
    "on_checkpoint": {"iteration": 1, "trials": [], "trial": None, "checkpoint": None},
    "on_experiment_end": {"trials": []},
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_list_of_callbacks_calls_all_in_order(hook: str) -> None:
    order = []

    class One(RecordingCallback):
        pass

    setattr(One, hook, lambda self, **info: order.append((self.state, info)))
    getattr(CallbackList([One(1), One(2)]), hook)(**HOOKS[hook])
    assert order == [(1, HOOKS[hook]), (2, HOOKS[hook])]


def test_a_list_of_callbacks_is_saved_and_restored(tmp_path: Path) -> None:
    saved = CallbackList([RecordingCallback(), RecordingCallback({"a": 1})])
    assert not saved.can_restore(str(tmp_path))
    saved.save_to_dir(str(tmp_path))
    fresh = [RecordingCallback("before"), RecordingCallback("before")]
    found = CallbackList(fresh)
    assert found.can_restore(str(tmp_path))
    found.restore_from_dir(str(tmp_path))
    assert [each.state for each in fresh] == ["before", {"a": 1}]


def test_a_list_of_callbacks_without_state_saves_nothing(tmp_path: Path) -> None:
    callbacks = CallbackList([RecordingCallback(), RecordingCallback()])
    assert callbacks.get_state() is None
    callbacks.save_to_dir(str(tmp_path))
    assert not callbacks.can_restore(str(tmp_path))
    with pytest.raises(RuntimeError, match="Unable to find checkpoint in"):
        callbacks.restore_from_dir(str(tmp_path))


def test_states_of_callbacks_are_kept_by_their_places() -> None:
    assert CallbackList([RecordingCallback(), RecordingCallback({"a": 1})]).get_state() == {
        0: None,
        1: {"a": 1},
    }


def test_a_list_of_callbacks_is_a_callback() -> None:
    assert isinstance(CallbackList([]), Callback)
    assert CallbackList.IS_CALLBACK_CONTAINER


SPACE = {"a": 1, "b": {"c": tune.uniform(0, 1), "d": [tune.grid_search([1, 2]), 3]}, "e": "text"}


def test_the_parts_of_a_space_are_told_apart() -> None:
    decided, domains, grids = parse_spec_vars(SPACE)
    assert dict(decided) == {("a",): 1, ("b", "d", 1): 3, ("e",): "text"}
    assert [path for path, _ in domains] == [("b", "c")]
    assert [path for path, _ in grids] == [("b", "d", 0)]
    assert grids[0][1].categories == [1, 2]
    assert grids[0][1].is_grid()


@pytest.mark.parametrize("space", [{}, {"a": 1}, {"a": {"b": [1, 2]}}, {"a": None}], ids=str)
def test_a_space_that_is_decided_has_no_domains(space: Any) -> None:
    assert parse_spec_vars(space)[1:] == ([], [])


@pytest.mark.parametrize(
    ("spec", "path", "after"),
    [
        ({"a": 1}, ("a",), {"a": "new"}),
        ({"a": {"b": 1}}, ("a", "b"), {"a": {"b": "new"}}),
        ({"a": [1, 2]}, ("a", 1), {"a": [1, "new"]}),
        ({"a": (1, 2)}, ("a", 0), {"a": ("new", 2)}),
        ({"a": [{"b": 1}]}, ("a", 0, "b"), {"a": [{"b": "new"}]}),
    ],
    ids=str,
)
def test_a_value_is_put_at_the_end_of_a_path(spec: Any, path: Any, after: Any) -> None:
    assign_value(spec, path, "new")
    assert spec == after


def test_variants_go_through_a_grid() -> None:
    found = [
        config
        for _, config in generate_variants({"a": tune.grid_search([1, 2]), "b": tune.grid_search(["x", "y"])})
    ]
    assert found == [{"a": a, "b": b} for a, b in [(1, "x"), (2, "x"), (1, "y"), (2, "y")]] or found == [
        {"a": a, "b": b} for a in (1, 2) for b in ("x", "y")
    ]


@pytest.mark.parametrize("value", [1, "text", [1, 2], {"a": None}, True, 1.5])
def test_plain_values_are_plain_json(value: Any) -> None:
    assert json.dumps(value, cls=TuneFunctionEncoder) == json.dumps(value)
    assert json.loads(json.dumps(value), cls=TuneFunctionDecoder) == value


class Own:
    pass


@pytest.mark.parametrize(
    "value", [len, lambda: 1, Own(), {1, 2}, 1j, Own], ids=["len", "lambda", "own", "set", "complex", "class"]
)
def test_values_that_json_has_no_form_for_are_pickled(value: Any) -> None:
    text = json.dumps({"a": value}, cls=TuneFunctionEncoder)
    with pytest.raises(ValueError, match="Refusing to deserialize an embedded cloudpickle payload"):
        json.loads(text, cls=TuneFunctionDecoder)
    found = TuneFunctionDecoder(allow_cloudpickle=True).decode(text)["a"]
    assert type(found) is type(value) or type(found).__name__ == type(value).__name__


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_what_a_level_prints(level: int) -> None:
    before = log.verbosity
    try:
        log.set_verbosity(level)
        assert [log.has_verbosity(each) for each in range(4)] == [each <= level for each in range(4)]
        assert log.has_verbosity(log.Verbosity(level))
        assert int(log.Verbosity(level)) == level
    finally:
        log.set_verbosity(before)


def test_statuses_that_stay_are_written_once() -> None:
    snapshot = TrialStatusSnapshot()
    assert snapshot.max_running_trials() == 0
    assert not snapshot.all_trials_are_terminated()
    for statuses in (
        {},
        {"a": "RUNNING", "b": "PENDING"},
        {"a": "RUNNING", "b": "RUNNING"},
        {"a": "TERMINATED", "b": "RUNNING"},
    ):
        snapshot.append(statuses)
        snapshot.append(statuses)
    assert snapshot.max_running_trials() == 2
    assert not snapshot.all_trials_are_terminated()
    snapshot.append({"a": "TERMINATED", "b": "TERMINATED"})
    assert snapshot.all_trials_are_terminated()


@pytest.mark.parametrize("fails", [0, 1, 2, 3])
def test_a_function_is_tried_again(fails: int) -> None:
    calls = []

    def often() -> None:
        calls.append(1)
        if len(calls) <= fails:
            raise OSError("not yet")

    assert retry_fn(often, exception_type=OSError, num_retries=3, sleep_time=0) is (fails < 3)
    assert len(calls) == min(fails + 1, 3)


def test_a_tee_writes_to_both() -> None:
    first, second = io.StringIO(), io.StringIO()
    both = Tee(first, second)
    both.write("text")
    both.flush()
    assert first.getvalue() == second.getvalue() == "text"
    assert both.newlines == first.newlines
    for name in ("detach", "read", "readline", "tell"):
        with pytest.raises(NotImplementedError):
            getattr(both, name)()


def test_a_block_that_is_quick_is_not_slow() -> None:
    with warn_if_slow("block") as block:
        pass
    assert not block.too_slow
    assert block.name == "block"


@pytest.mark.parametrize("name", ["checkpoint", "model", "onnx", "h5"])
def test_forms_of_models(name: str) -> None:
    formats = [f" {name.upper()} "]
    ExportFormat.validate(formats)
    assert formats == [name]


def test_a_form_of_models_that_there_is_not() -> None:
    with pytest.raises(tune.TuneError, match="Unsupported import/export format: other"):
        ExportFormat.validate(["model", "other"])


def test_inputs_are_registered() -> None:
    def reader(context: Any) -> None:
        """Read nothing."""

    assert not registry.registry_contains_input("small-parts")
    registry.register_input("small-parts", reader)
    assert registry.registry_contains_input("small-parts")
    assert registry.registry_get_input("small-parts").__name__ == "reader"
    with pytest.raises(TypeError, match="Second argument must be callable"):
        registry.register_input("small-parts", 1)


def test_a_form_of_trainable_that_does_not_exist() -> None:
    with pytest.raises(tune.TuneError, match="Unknown trainable"):
        registry.validate_trainable("small-parts-none")


@pytest.mark.parametrize("name", ["register_env", "register_input"])
def test_what_cannot_be_called_is_not_registered(name: str) -> None:
    with pytest.raises(TypeError, match="Second argument must be callable"):
        getattr(registry, name)("small-parts", 1)


@pytest.fixture
def trial() -> Trial:
    return Trial("small-parts", stub=True, config={"a": 1}, max_failures=2, experiment_tag="3_a=1")


def test_a_trial_of_its_own(trial: Trial) -> None:
    assert trial.status == Trial.PENDING
    assert not trial.is_finished()
    assert not trial.has_checkpoint()
    assert trial.config == {"a": 1}
    assert len(trial.trial_id) >= 8
    assert not trial.should_checkpoint()
    assert trial.should_recover()
    assert trial.num_failures == 0
    assert trial.get_error() is None
    assert str(trial) == f"small-parts_{trial.trial_id}"


@pytest.mark.parametrize("status", ["RUNNING", "PAUSED", "TERMINATED", "ERROR"])
def test_the_status_of_a_trial(trial: Trial, status: str) -> None:
    trial.set_status(status)
    assert trial.status == status
    assert trial.is_finished() is (status in ("TERMINATED", "ERROR"))


@pytest.mark.parametrize(
    ("stop", "result", "stops"),
    [
        ({}, {"x": 1}, False),
        ({}, {"done": True}, True),
        ({"x": 2}, {"x": 1}, False),
        ({"x": 2}, {"x": 2}, True),
        ({"x": 2}, {"x": 3.5}, True),
        ({"x": 2, "y": 5}, {"x": 1, "y": 5}, True),
        ({"a/b": 6}, {"a/b": 6}, True),
    ],
    ids=str,
)
def test_what_ends_a_trial(stop: Any, result: Any, stops: bool) -> None:
    assert Trial("small-parts", stub=True, stopping_criterion=stop).should_stop(result) is stops


def test_a_trial_is_named_by_a_function() -> None:
    named = Trial(
        "small-parts", stub=True, trial_id="t1", trial_name_creator=lambda trial: f"name-{trial.trial_id}"
    )
    assert str(named) == "name-t1"


@pytest.mark.parametrize(
    "domain",
    [
        tune.uniform(1, 2), tune.quniform(1, 2, 0.1), tune.loguniform(1e-3, 1), tune.qloguniform(1e-3, 1, 1e-4),
        tune.randn(), tune.qrandn(0, 1, 0.1), tune.randint(1, 9), tune.qrandint(2, 8, 2), tune.lograndint(1, 100),
        tune.qlograndint(2, 100, 2), tune.choice([1, 2]), tune.sample_from(len),
    ],
    ids=lambda domain: domain.domain_str if hasattr(domain, "domain_str") else str(domain),
)  # fmt: skip
def test_domains_can_be_pickled_and_show_themselves(domain: Any) -> None:
    assert pickle.loads(pickle.dumps(domain)).domain_str == domain.domain_str


def test_a_trial_is_named_after_its_environment() -> None:
    class Room:
        pass

    names = [
        str(Trial("f", stub=True, trial_id="1", config=config))
        for config in ({"env": "A/b"}, {"env": Room}, {})
    ]
    assert names == ["f_A_b_1", "f_Room_1", "f_1"]


def test_a_class_that_is_no_trainable() -> None:
    with pytest.raises(TypeError):
        tune.Experiment("name", Path)
    with pytest.raises(tune.TuneError):
        tune.Experiment("name", 5)


def test_columns_of_a_list_have_no_headings() -> None:
    reporter = tune.CLIReporter(metric_columns=["a"])
    reporter.add_metric_column("b")
    for name, heading in (("b", None), ("c", "another")):
        with pytest.raises(ValueError):
            reporter.add_metric_column(name, heading)
    tune.CLIReporter(metric_columns={"a": "A"}).add_metric_column("c", "another")
