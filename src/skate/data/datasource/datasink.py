"""Datasinks, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.datasink import Datasink as Datasink
from skate.data.source.datasink import DummyOutputDatasink as DummyOutputDatasink
from skate.data.source.datasink import WriteResult as WriteResult
from skate.data.source.datasink import WriteReturnType as WriteReturnType
