"""Borrowing through a third node, in a mesh: the owner must hear of the last borrower before the one it borrowed from lets go.

Without stamps the value is gone, which the run notices; with them the FREE waits. The case is in `third_party`. The owner cannot
hear of the last borrower in time if the lender's node is lost; then the borrower gets an error.
"""

from __future__ import annotations

import pytest

from skate.core.object.lifetimes import FREED
from skate.protocol import messages as m
from skate.protocol.causality import BINDING
from tests.simulation.third_party import lend, lend_and_lose, mesh, read


@pytest.mark.parametrize("large", [False, True])
def test_without_stamps_a_borrowed_value_is_gone_when_its_borrower_is_heard_of(large: bool) -> None:
    made, driver = mesh(binding=())
    oid = lend(made, driver, large=large)
    assert made.nodes[0].core.objects.get(oid) is None
    with pytest.raises(AssertionError, match="was freed while it was referenced"):
        read(made, driver)


@pytest.mark.parametrize("large", [False, True])
def test_with_stamps_the_free_waits_for_the_hold(large: bool) -> None:
    made, driver = mesh()
    oid = lend(made, driver, large=large)
    assert made.nodes[0].core.objects.get(oid) is not None
    assert made.orders[0].held().keys() == {1}
    assert read(made, driver) == "ok"


def test_a_value_inside_of_another_one() -> None:
    made, driver = mesh()
    lend(made, driver, nested=True)
    assert read(made, driver) == "ok"


@pytest.mark.parametrize("large", [False, True])
def test_a_borrower_that_its_owner_hears_of_too_late_gets_an_error(large: bool) -> None:
    """The node that lent the value is lost before the ref arrives at the borrower, and the owner frees the value at once."""
    made, driver = mesh()
    lend_and_lose(made, driver, large=large)
    assert read(made, driver) == "ok"  # a program continues when it has read an error
    (kept,) = [ref for process in made.nodes[2].processes.values() for ref in getattr(process, "stash", ())]
    assert made.observer.result(kept) == FREED
    del kept
    made.drain(without_timeouts=True)


def test_the_order_waits_only_where_it_must() -> None:
    """The links of node 1 to others work while its FREE to node 0 waits."""
    made, driver = mesh()
    lend(made, driver)
    assert not made.orders[2].held() and not made.orders[1].held()


def test_each_message_that_binds_is_sent_between_nodes() -> None:
    assert set(BINDING) == {m.HOLD}
