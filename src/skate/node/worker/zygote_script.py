"""Starts a zygote by file path, because a user's command that starts Python may split its arguments at spaces."""

from __future__ import annotations

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from skate.node.worker.zygote import main  # noqa: E402  (found through the line above)

main()
