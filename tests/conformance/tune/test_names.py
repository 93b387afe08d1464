"""The modules and names of ray.tune, ray.air and older paths of ray.train, and types of what tools look at."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
from ray import tune

NAMES = {
    "ray.air": "CheckpointConfig FailureConfig Result RunConfig ScalingConfig",
    "ray.air.constants": (
        "CHECKPOINT_ID_ATTR EVALUATION_DATASET_KEY EXPR_ERROR_FILE EXPR_ERROR_PICKLE_FILE EXPR_PARAM_FILE EXPR_PROGRESS_FILE "
        "EXPR_RESULT_FILE MAX_REPR_LENGTH MODEL_KEY PREPROCESSOR_KEY TIMESTAMP TIME_THIS_ITER_S "
        "TRAINING_ITERATION TRAIN_DATASET_KEY"
    ),
    "ray.air.result": "Result",
    "ray.air.session": (
        "get_checkpoint get_dataset_shard get_experiment_name get_local_rank get_local_world_size get_node_rank get_trial_dir "
        "get_trial_id get_trial_name get_trial_resources get_world_rank get_world_size report"
    ),
    "ray.train.constants": (
        "CHECKPOINT_DIR_NAME DEFAULT_STORAGE_PATH EVALUATION_DATASET_KEY MODEL_KEY PREPROCESSOR_KEY RAY_CHDIR_TO_TRIAL_DIR "
        "TIME_TOTAL_S TRAIN_DATASET_KEY WORKER_HOSTNAME WORKER_NODE_IP WORKER_PID"
    ),
    "ray.train.base_trainer": "BaseTrainer TrainingFailedError RunConfig ScalingConfig Result Checkpoint",
    "ray.train.context": "TrainContext get_context",
    "ray.train.v2.api.config": "RunConfig ScalingConfig FailureConfig CheckpointConfig",
    "ray.train.v2.api.context": "TrainContext",
    "ray.train.v2.api.data_parallel_trainer": "DataParallelTrainer",
    "ray.train.v2.api.exceptions": "ControllerError NCCLHangError PreemptionError TrainingFailedError WorkerGroupError",
    "ray.train.v2.api.reported_checkpoint": "ReportedCheckpoint",
    "ray.train.v2.api.result": "Result",
    "ray.train.v2.api.train_fn_utils": "report get_checkpoint get_context get_dataset_shard get_all_reported_checkpoints",
    "ray.train.v2.api.callback": "UserCallback",
    "ray.train.v2.api.validation_config": "ValidationConfig ValidationTaskConfig",
    "ray.tune.cli.commands": "add_note list_experiments list_trials",
    "ray.tune.experiment.trial": "Trial",
    "ray.tune.registry": "get_trainable_cls is_function_trainable register_env register_trainable validate_trainable",
    "ray.tune.resources": "PlacementGroupFactory resource_dict_to_pg_factory",
    "ray.tune.result": (
        "AUTO_RESULT_KEYS CONFIG_PREFIX DEBUG_METRICS DEFAULT_EXPERIMENT_INFO_KEYS DEFAULT_METRIC DEFAULT_RESULT_KEYS DONE "
        "EPISODES_THIS_ITER EPISODES_TOTAL EPISODE_REWARD_MEAN EXPERIMENT_TAG EXPR_ERROR_FILE EXPR_META_FILE EXPR_PARAM_FILE "
        "EXPR_PROGRESS_FILE EXPR_RESULT_FILE HOSTNAME JOB_META_FILE MEAN_ACCURACY MEAN_LOSS NODE_IP PID RESULT_DUPLICATE "
        "SHOULD_CHECKPOINT TIMESTEPS_THIS_ITER TIMESTEPS_TOTAL TIME_THIS_ITER_S TIME_TOTAL_S TRAINING_ITERATION TRIAL_ID"
    ),
    "ray.tune.search.sample": "Categorical Domain Float Function Grid Integer LogUniform Normal Quantized Uniform",
    "ray.tune.search.variant_generator": "RecursiveDependencyError format_vars generate_variants grid_search",
    "ray.tune.stopper.noop": "NoopStopper",
    "ray.tune.trainable.util": "with_parameters with_resources",
    "ray.tune.utils.mock_trainable": "MyTrainableClass register_mock_trainable",
    "ray.tune.utils.util": (
        "date_str deep_update diagnose_serialization flatten_dict is_nan is_nan_or_inf merge_dicts unflatten_dict "
        "unflatten_list_dict unflattened_lookup validate_save_restore validate_warmstart wait_for_gpu warn_if_slow"
    ),
}
PAIRS = [(module, name) for module, names in NAMES.items() for name in names.split()]


@pytest.mark.parametrize(("module", "name"), PAIRS, ids=[f"{module}.{name}" for module, name in PAIRS])
def test_a_name_is_where_programs_look_for_it(module, name):
    assert hasattr(importlib.import_module(module), name)


CONSTANTS = {
    "ray.air.constants": {"TRAINING_ITERATION": "training_iteration", "MODEL_KEY": "model", "MAX_REPR_LENGTH": 120},
    "ray.train.constants": {
        "RAY_CHDIR_TO_TRIAL_DIR": "RAY_CHDIR_TO_TRIAL_DIR", "TIME_TOTAL_S": "_time_total_s", "TRAIN_DATASET_KEY": "train",
    },
    "ray.tune.result": {
        "DEFAULT_METRIC": "_metric", "EXPR_META_FILE": "trial_status.json", "RESULT_DUPLICATE": "__duplicate__",
        "DEFAULT_RESULT_KEYS": ("training_iteration", "time_total_s", "mean_accuracy", "mean_loss"),
        "DEFAULT_EXPERIMENT_INFO_KEYS": ("trainable_name", "experiment_tag", "trial_id"),
    },
}  # fmt: skip
VALUES = [(module, name, value) for module, each in CONSTANTS.items() for name, value in each.items()]


@pytest.mark.parametrize(("module", "name", "value"), VALUES, ids=[each[1] for each in VALUES])
def test_constants(module, name, value):
    assert getattr(importlib.import_module(module), name) == value


@pytest.mark.parametrize(
    ("domain", "kind"),
    [(tune.randint(1, 9), int), (tune.uniform(0, 1), float), (tune.choice([1]), Any), (tune.sample_from(lambda _: 1), Any)],
)  # fmt: skip
def test_the_types_that_domains_say_they_take_are_types(domain, kind):
    found = inspect.signature(domain.is_valid).parameters
    assert [each.annotation for each in found.values()] == [kind]


def test_unflatten():
    from ray.tune.utils.util import unflatten_dict, unflatten_list_dict

    assert unflatten_dict({"a/b": 1, "a/c/d": 2, "e": 3}) == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert unflatten_dict({"a.b": 1}, delimiter=".") == {"a": {"b": 1}}
    assert unflatten_list_dict({"a/0/b": 1, "a/1/b": 2}) == {"a": [{"b": 1}, {"b": 2}]}


@pytest.mark.parametrize(
    ("value", "nan", "either"), [(1.0, False, False), (float("nan"), True, True), (float("inf"), False, True)]
)
def test_nan_and_infinity(value, nan, either):
    from ray.tune.utils.util import is_nan, is_nan_or_inf

    assert bool(is_nan(value)) is nan
    assert bool(is_nan_or_inf(value)) is either


def test_expressions_as_text_are_drawn_as_functions_are():
    from ray.tune.search.variant_generator import generate_variants

    [(_, found)] = generate_variants({"a": {"eval": "2 + 2"}, "b": {"eval": "spec.c + 1"}, "c": 5})
    assert found == {"a": 4, "b": 6, "c": 5}


@pytest.mark.parametrize("seed", [None, 5])
def test_generators_old_and_new_have_the_names_of_the_new(seed):
    from ray.tune.search.sample import _BackwardsCompatibleNumpyRng

    found = _BackwardsCompatibleNumpyRng(seed)
    assert found.legacy_rng is (seed is None)
    assert 0 <= found.integers(0, 10) < 10


def test_the_mock_trainable_has_a_curve_that_rises(tmp_path):
    from ray.tune.utils.mock_trainable import MyTrainableClass

    trainable = MyTrainableClass({"width": 3, "height": 10})
    values = [trainable.train()["episode_reward_mean"] for _ in range(4)]
    assert values == sorted(values)
    assert 0 < values[0] < values[-1] < 10
    trainable.save_checkpoint(str(tmp_path))
    another = MyTrainableClass({"width": 3, "height": 10})
    another.load_checkpoint(str(tmp_path))
    assert (another.timestep, another.restored, trainable.restored) == (4, True, False)


def test_the_mock_trainable_fails_when_asked_to():
    from ray.tune.utils.mock_trainable import MOCK_ERROR_KEY, MyTrainableClass

    trainable = MyTrainableClass({MOCK_ERROR_KEY: True})
    assert trainable.train()["training_iteration"] == 1
    with pytest.raises(RuntimeError, match="Failing on purpose!"):
        trainable.train()


def test_the_mock_trainable_has_a_name_to_run_it_by():
    from ray.tune.registry import get_trainable_cls
    from ray.tune.utils import mock_trainable

    mock_trainable.register_mock_trainable()
    assert get_trainable_cls(mock_trainable.MOCK_TRAINABLE_NAME) is mock_trainable.MyTrainableClass


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (lambda: tune.loguniform(0, 1), "requires a lower bound greater than 0"),
        (lambda: tune.loguniform(-1, 1), "requires a lower bound greater than 0"),
        (lambda: tune.lograndint(0, 5), "requires a lower bound greater than 0"),
        (lambda: tune.quniform(0, 1, 0.3), "is not divisible by quantization factor"),
        (lambda: tune.qloguniform(1e-3, 1, 1e-2), "is not divisible by quantization factor"),
        (lambda: tune.FailureConfig(fail_fast="x"), "fail_fast must be one of"),
        (
            lambda: tune.FailureConfig(fail_fast=True, max_failures=2),
            "max_failures must be 0 if fail_fast=True",
        ),
        (lambda: tune.CheckpointConfig(num_to_keep=0), "invalid num_to_keep"),
        (lambda: tune.CheckpointConfig(num_to_keep=-1), "Must be None or an integer >= 1"),
        (lambda: tune.CheckpointConfig(checkpoint_frequency=-1), "checkpoint_frequency must be >=0"),
        (
            lambda: tune.CheckpointConfig(checkpoint_score_attribute="a", checkpoint_score_order="x"),
            "must be either",
        ),
        (lambda: tune.with_parameters(5, a=1), "only works with function trainables or classes"),
        (lambda: tune.with_resources(5, {"cpu": 1}), "only works with function trainables or classes"),
        (lambda: tune.with_resources(lambda config: 1, 5), "Invalid resource type for `with_resources"),
        (
            lambda: tune.register_trainable("takes_nothing", lambda: 1),
            "Unknown argument found in the Trainable function",
        ),
        (
            lambda: tune.register_trainable("takes_two", lambda a, b: 1),
            "must include a single 'config' positional parameter",
        ),
    ],
)
def test_what_is_refused_with_a_value_error(make, phrase):
    with pytest.raises(ValueError, match=phrase):
        make()


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (lambda: tune.register_trainable("number", int), "Second argument must be convertable to Trainable"),
        (lambda: tune.register_env("number", 5), "Second argument must be callable"),
    ],
)
def test_what_is_refused_with_a_type_error(make, phrase):
    with pytest.raises(TypeError, match=phrase):
        make()


def test_a_tee_writes_to_both_and_passes_over_what_is_closed():
    import io

    from ray.tune.utils.util import Tee

    first, second = io.StringIO(), io.StringIO()
    both = Tee(first, second)
    both.write("one ")
    both.flush()
    assert first.getvalue() == second.getvalue() == "one "
    first.close()
    both.write("two")
    assert second.getvalue() == "one two"
    both.seek(0)
    both.write("TWO")
    assert second.getvalue() == "TWO two"
