"""Datasources, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.datasource import BlockMetadata as BlockMetadata
from skate.data.source.datasource import Datasource as Datasource
from skate.data.source.datasource import Reader as Reader
from skate.data.source.datasource import ReadTask as ReadTask
from skate.data.source.random_rows import RandomIntRowDatasource as RandomIntRowDatasource
