"""Messages about missing resources: the resource, the requester, the available amount, the remedy."""

from hypothesis import given
from hypothesis import strategies as st

from skate.core.resource import resources
from skate.core.resource.resources import UNIT, to_units
from skate.core.schedule import infeasible_request

AMOUNTS = st.dictionaries(st.sampled_from(["CPU", "GPU", "memory", "x"]), st.integers(1, 50_000))


def units(**amounts):
    return {name: to_units(amount) for name, amount in amounts.items()}


def message(request, *nodes, requested_by="train_fn"):
    assert not any(resources.fits(request, node) for node in nodes)
    return infeasible_request.infeasible_message(request, nodes, requested_by)


def test_the_message_names_the_option_the_asker_what_there_is_and_what_to_do():
    assert message(units(GPU=4), units(CPU=2, GPU=2)) == (
        "No available node types can fulfill resource request {'GPU': 4.0}: "
        "num_gpus=4 requested by train_fn, "
        "but this cluster has 2 GPUs in all; request fewer, or start with init(num_gpus=4)"
    )


def test_with_several_nodes_the_largest_is_named():
    text = message(units(CPU=3), units(CPU=2), units(CPU=1))
    assert "this cluster has 3 CPUs in all (largest node: 2); it must fit on one node" in text


def test_no_gpu_at_all():
    text = message(units(GPU=0.5), units(CPU=2))
    assert "num_gpus=0.5" in text
    assert "has no GPU" in text
    assert "init(num_gpus=1)" in text


def test_several_missing_resources_are_all_named():
    text = message(units(CPU=99, GPU=1), units(CPU=2))
    assert "num_cpus=99" in text
    assert "num_gpus=1" in text


def test_memory_is_given_in_units_that_can_be_read():
    text = message(units(memory=2**40), units(CPU=1, memory=8 * 2**30))
    assert f"memory={2**40} (1 TiB)" in text
    assert "8 GiB of memory" in text


def test_a_custom_resource_misspelt_is_told_its_neighbour():
    text = message(units(acclerator=1), units(CPU=1, Accelerator=2))
    assert "resources={'acclerator': 1}" in text
    assert "did you mean 'Accelerator'?" in text


def test_a_custom_resource_that_nobody_has_lists_those_that_there_are():
    text = message(units(foo=1), units(CPU=1, zebra=2, memory=5))
    assert "(it has 'zebra')" in text
    assert "init(resources={'foo': 1})" in text


def test_too_much_of_a_custom_resource():
    assert "has 2 of 'foo' in all" in message(units(foo=5), units(foo=2))


def test_an_accelerator_type_that_nobody_has():
    text = message({"accelerator_type:A100": 10}, {"CPU": UNIT, "accelerator_type:T4": UNIT})
    assert "accelerator_type='A100'" in text
    assert "it has T4" in text


def test_each_alone_fits_but_no_node_has_all():
    text = message(units(CPU=2, GPU=1), units(CPU=1, GPU=1), units(CPU=2))
    assert "num_cpus=2, num_gpus=1 requested together" in text
    assert "one has 1 CPU, 1 GPU; one has 2 CPUs, 0 GPUs" in text


def test_many_nodes_are_not_all_listed():
    nodes = [units(CPU=2)] * 9 + [units(GPU=1)]
    assert "and 6 more" in message(units(CPU=2, GPU=1), *nodes)


def test_a_cluster_without_nodes():
    assert "0 CPUs in all" in message(units(CPU=1))
    assert "has no node" in message({})


@given(request=AMOUNTS, nodes=st.lists(AMOUNTS, min_size=1, max_size=4))
def test_there_is_always_a_message_for_what_cannot_be(request, nodes):
    feasible = any(resources.fits(request, node) for node in nodes)
    if not feasible:
        text = infeasible_request.infeasible_message(request, nodes, "f")
        assert "requested" in text
        assert " f, but" in text
