"""The messages between nodes that bind: nothing that follows from one may reach its receiver before it.

A fabric keeps the order between two nodes. Where three are involved, it keeps the order only behind these messages
(`fabric/order.py`). Each entry needs a case in which the cluster goes wrong without it: tests/simulation/test_borrowing.py.
"""

from __future__ import annotations

from skate.protocol import messages as m

#: Numbers of messages, with the reason.
BINDING: dict[int, str] = {
    m.HOLD: "the owner must count a borrower before the FREE of the node that it borrows from",
}
