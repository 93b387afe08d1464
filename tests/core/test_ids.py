"""Ids: layout, public methods, equality and rejected values."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.core import ids

SIZES = {
    ids.JobID: 4,
    ids.ActorID: 16,
    ids.TaskID: 24,
    ids.ObjectID: 28,
    ids.NodeID: 28,
    ids.WorkerID: 28,
    ids.FunctionID: 28,
    ids.ActorClassID: 28,
    ids.ClusterID: 28,
    ids.UniqueID: 28,
    ids.PlacementGroupID: 18,
}
KINDS = sorted(SIZES, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", KINDS)
def test_every_kind_has_rays_size_and_goes_to_hex_and_back(cls):
    raw = bytes(range(SIZES[cls]))
    id_ = cls(raw)
    assert cls.size() == SIZES[cls] == len(id_.binary())
    assert id_.hex() == raw.hex()
    assert cls.from_hex(raw.hex()) == cls.from_binary(raw) == id_
    assert bytes(id_) == raw
    assert repr(id_) == str(id_) == f"{cls.__name__}({raw.hex()})"


@pytest.mark.parametrize("cls", KINDS)
def test_nil_is_all_ones(cls):
    assert cls.nil().is_nil()
    assert cls.nil().binary() == b"\xff" * SIZES[cls]
    assert not cls(bytes(SIZES[cls])).is_nil()


@pytest.mark.parametrize("cls", KINDS)
def test_an_id_survives_pickling_and_has_no_dict(cls):
    id_ = cls(bytes(SIZES[cls]))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(id_, protocol))
        assert type(copy) is cls
        assert copy == id_
        assert hash(copy) == hash(id_)
    assert not hasattr(id_, "__dict__")


def test_ids_of_different_kinds_are_different_even_with_the_same_bytes():
    raw = bytes(28)
    assert ids.NodeID(raw) != ids.WorkerID(raw)
    assert ids.NodeID(raw) != raw
    assert len({ids.NodeID(raw), ids.WorkerID(raw), ids.NodeID(raw)}) == 2


def test_wrong_length_and_type_are_refused_with_what_is_wanted():
    with pytest.raises(ValueError, match="TaskID takes 24 bytes, got 1"):
        ids.TaskID(b"1")
    with pytest.raises(TypeError, match=r"TaskID takes bytes, got str; .*TaskID.from_hex"):
        ids.TaskID("1" * 48)
    with pytest.raises(ValueError, match="TaskID has 48 hexadecimal digits, got 2"):
        ids.TaskID.from_hex("11")
    with pytest.raises(ValueError, match="hexadecimal digits, got 'zz'"):
        ids.TaskID.from_hex("zz")


@given(
    job=st.integers(0, 2**32 - 2),
    actor_unique=st.binary(min_size=12, max_size=12),
    task_unique=st.binary(min_size=8, max_size=8),
    index=st.integers(0, 2**32 - 1),
)
def test_an_object_id_tells_its_task_actor_and_job(job, actor_unique, task_unique, index):
    job_bytes = ids.job_id(job)
    actor = ids.actor_id(actor_unique, job_bytes)
    task = ids.task_id(task_unique, actor)
    object_ = ids.object_id(task, index)

    assert ids.task_of(object_) == task
    assert ids.index_of(object_) == index
    assert ids.job_of(object_) == ids.job_of(task) == ids.job_of(actor) == job_bytes

    face = ids.ObjectID(object_)
    assert face.index() == index
    assert face.task_id().binary() == task
    assert face.task_id().actor_id().binary() == actor
    assert face.job_id() == face.task_id().job_id() == face.task_id().actor_id().job_id
    assert face.job_id() == ids.JobID.from_int(job)
    assert face.job_id().int() == job


def test_a_plain_task_runs_on_no_actor_but_has_a_job():
    job = ids.job_id(7)
    plain = ids.TaskID(ids.task_id(b"12345678", ids.no_actor(job)))
    call = ids.TaskID(ids.task_id(b"12345678", ids.actor_id(b"abcdefghijkl", job)))
    assert plain.actor_id().binary() == ids.no_actor(job)
    assert call.actor_id().binary() == ids.actor_id(b"abcdefghijkl", job)
    assert plain.job_id() == call.job_id() == ids.JobID.from_int(7)


def test_a_job_id_is_little_endian_as_rays():
    assert ids.JobID.from_int(5).hex() == "05000000"


def test_a_placement_group_id_ends_with_its_job():
    group = ids.PlacementGroupID(bytes(14) + ids.job_id(3))
    assert group.job_id().int() == 3
    assert ids.job_of(group.binary()) == ids.job_id(3)
