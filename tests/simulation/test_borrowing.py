"""Borrowing through a third node, in a mesh: the owner must hear of the last borrower before the one it borrowed from lets go.

Without stamps the value is gone, and a reader waits forever; with them the FREE waits. The case is in `third_party`.
"""

from __future__ import annotations

from typing import Any

import pytest

from skate.protocol import messages as m
from skate.protocol.causality import BINDING
from tests.simulation.third_party import lend, mesh, read


@pytest.mark.parametrize("large", [False, True])
def test_without_stamps_a_borrowed_value_is_gone_and_its_reader_waits_for_ever(large: bool) -> None:
    made, driver = mesh(binding=())
    oid = lend(made, driver, large=large)
    assert made.nodes[0].core.objects.get(oid) is None
    assert read(made, driver) == ""


@pytest.mark.parametrize("large", [False, True])
def test_with_stamps_the_free_waits_for_the_hold(large: bool) -> None:
    made, driver = mesh()
    oid = lend(made, driver, large=large)
    assert made.nodes[0].core.objects.get(oid) is not None
    assert made.orders[0].held().keys() == {1}
    assert read(made, driver) == "ok"


@pytest.mark.parametrize(("binding", "outcome"), [((), ""), (BINDING, "ok")])
def test_a_value_inside_of_another_one(binding: Any, outcome: str) -> None:
    made, driver = mesh(binding)
    lend(made, driver, nested=True)
    assert read(made, driver) == outcome


def test_the_order_waits_only_where_it_must() -> None:
    """The links of node 1 to others work while its FREE to node 0 waits."""
    made, driver = mesh()
    lend(made, driver)
    assert not made.orders[2].held() and not made.orders[1].held()


def test_each_message_that_binds_is_sent_between_nodes() -> None:
    assert set(BINDING) == {m.HOLD}
