"""Datasources of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.source import FileBasedDatasource as FileBasedDatasource
from skate.data.source.files.source import FileShuffleConfig as FileShuffleConfig
