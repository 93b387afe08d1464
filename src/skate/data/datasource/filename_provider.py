"""Names of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.naming import FilenameProvider as FilenameProvider
