"""Listings of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.file_list import BaseFileMetadataProvider as BaseFileMetadataProvider
from skate.data.source.files.file_list import DefaultFileMetadataProvider as DefaultFileMetadataProvider
from skate.data.source.files.file_list import FileMetadataProvider as FileMetadataProvider
