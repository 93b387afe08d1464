"""Names of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.filename_provider import FilenameProvider as FilenameProvider
