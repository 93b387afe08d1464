"""Listings of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.listing import BaseFileMetadataProvider as BaseFileMetadataProvider
from skate.data.source.files.listing import DefaultFileMetadataProvider as DefaultFileMetadataProvider
from skate.data.source.files.listing import FileMetadataProvider as FileMetadataProvider
