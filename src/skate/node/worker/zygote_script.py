"""Starts a zygote by the path of this file: a command of the user's that starts Python may split what it passes on at spaces."""

from __future__ import annotations

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from skate.node.worker.zygote import main  # noqa: E402  (it is found by the line above)

main()
