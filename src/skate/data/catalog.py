"""Table catalogs: resolve the name of a table to its location and the credentials for it."""

from __future__ import annotations

import datetime
import enum
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

_TIMEOUT_SECONDS = 30


class ReaderFormat(str, enum.Enum):
    """The format in which a table is read."""

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class CatalogAccessMode(str, enum.Enum):
    """The purpose of an access: reading or writing."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class ResolvedSource:
    """The location of a table and how to access it; a reader uses the fields it understands, the others are None."""

    path: str | None = None
    filesystem: Any = None
    storage_options: dict[str, Any] | None = None
    catalog_kwargs: dict[str, Any] | None = None
    table_identifier: str | None = None
    data_format: ReaderFormat | None = None


class Catalog(ABC):
    """Resolves table names to locations. Subclass it and pass an instance as `catalog=` to readers and writers of
    tables.
    """

    @abstractmethod
    def resolve(
        self, table: str, *, reader: ReaderFormat, mode: CatalogAccessMode = CatalogAccessMode.READ
    ) -> ResolvedSource:
        """Return where a table is and how to access it, for one reader."""


class Credentials(Protocol):
    """The access to a workspace."""

    def get_host(self) -> str:
        """Return the host."""

    def get_token(self) -> str:
        """Return an access token."""

    def invalidate(self) -> None:
        """Get another token: this one was refused."""


class DatabricksUnityCatalog(Catalog):
    """Databricks' Unity Catalog, queried over its REST interface for a table's location and short-lived credentials.

    Args:
        url: the workspace, "https://...".
        token: an access token for it.
        credential_provider: has `get_host()` and `get_token()` instead.
        region: the bucket's region, for tables on S3.

    Raises ValueError unless there is a provider, or a URL and a token. A failed query raises RuntimeError
    with the catalog's answer.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        credential_provider: Credentials | None = None,
        region: str | None = None,
    ) -> None:
        if credential_provider is None and not (url and token):
            raise ValueError("DatabricksUnityCatalog needs url= and token=, or a credential_provider=")
        self.url = url
        self.token = token
        self.credential_provider = credential_provider
        self.region = region

    def resolve(
        self, table: str, *, reader: ReaderFormat, mode: CatalogAccessMode = CatalogAccessMode.READ
    ) -> ResolvedSource:
        if reader is ReaderFormat.ICEBERG:
            host, token = self._access()
            catalog, _, rest = table.partition(".")
            named = {"type": "rest", "uri": f"{host}/api/2.1/unity-catalog/iceberg-rest"}
            return ResolvedSource(
                catalog_kwargs={**named, "token": token, "warehouse": catalog},
                table_identifier=rest,
                data_format=reader,
            )
        about = self._about(table)
        place = about.get("storage_location")
        if not place:
            raise RuntimeError(f"the catalog knows {table!r}, but returned no storage location: {about}")
        operation = "READ" if mode is CatalogAccessMode.READ else "READ_WRITE"
        given = self._ask(
            "temporary-table-credentials", {"table_id": about.get("table_id"), "operation": operation}
        )
        options = _storage_options(given, self.region)
        filesystem = _filesystem(given, self.region) if reader is ReaderFormat.PARQUET else None
        return ResolvedSource(
            path=place,
            filesystem=filesystem,
            storage_options=options,
            data_format=_format_of(about),
        )

    def infer_format(self, table: str) -> ReaderFormat | None:
        """The format in which a table is stored, or None if no reader supports it."""
        return _format_of(self._about(table))

    def _about(self, table: str) -> dict[str, Any]:
        return self._ask(f"tables/{urllib.parse.quote(table, safe='')}")

    def _access(self) -> tuple[str, str]:
        provider = self.credential_provider
        host = str(provider.get_host() if provider is not None else self.url)
        token = str(provider.get_token() if provider is not None else self.token)
        if "://" not in host:
            host = f"https://{host}"
        return host.rstrip("/"), token

    def _ask(self, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        host, token = self._access()
        request = urllib.request.Request(
            f"{host}/api/2.1/unity-catalog/{what}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            text = error.read(2000).decode(errors="replace")
            raise RuntimeError(
                f"the catalog at {host} answered {error.code} to a request for {what}: {text}"
            ) from None
        except urllib.error.URLError as error:
            raise RuntimeError(f"the catalog at {host} cannot be reached: {error.reason}") from None


def _format_of(about: dict[str, Any]) -> ReaderFormat | None:
    format_name = str(about.get("data_source_format") or "").lower()
    return ReaderFormat(format_name) if format_name in {each.value for each in ReaderFormat} else None


def _storage_options(given: dict[str, Any], region: str | None) -> dict[str, Any]:
    """Return the credentials under the names that deltalake expects."""
    aws, azure = given.get("aws_temp_credentials"), given.get("azure_user_delegation_sas")
    google = given.get("gcp_oauth_token")
    if aws:
        options = {
            "AWS_ACCESS_KEY_ID": aws["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": aws["secret_access_key"],
            "AWS_SESSION_TOKEN": aws["session_token"],
        }
        region = region or os.environ.get("AWS_REGION")
        return {**options, "AWS_REGION": region} if region else options
    if azure:
        return {"AZURE_STORAGE_SAS_TOKEN": azure["sas_token"]}
    return {"GOOGLE_OAUTH_TOKEN": google["oauth_token"]} if google else {}


def _filesystem(given: dict[str, Any], region: str | None) -> Any:
    """Return a filesystem with the credentials; None for locations that need none."""
    from pyarrow import fs  # only catalogs need it here

    aws, google = given.get("aws_temp_credentials"), given.get("gcp_oauth_token")
    if aws:
        return fs.S3FileSystem(
            access_key=aws["access_key_id"],
            secret_key=aws["secret_access_key"],
            session_token=aws["session_token"],
            region=region or os.environ.get("AWS_REGION"),
        )
    if google:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return fs.GcsFileSystem(access_token=google["oauth_token"], credential_token_expiration=end)
    if given.get("azure_user_delegation_sas"):
        raise NotImplementedError(
            "Parquet tables on Azure cannot be read through a catalog; give a filesystem= of adlfs, or use read_delta"
        )
    return None


def resolved(
    function: str,
    catalog: Any,
    table: Any,
    reader: ReaderFormat,
    mode: CatalogAccessMode = CatalogAccessMode.READ,
) -> ResolvedSource:
    """Resolve a table through a catalog. Raises TypeError if `catalog` is not a catalog, ValueError for several
    tables.
    """
    if not hasattr(catalog, "resolve"):
        raise TypeError(
            f"catalog of {function} must be a skate.data.Catalog, got {type(catalog).__name__}: {catalog!r:.80}"
        )
    if isinstance(table, (list, tuple)):
        if len(table) != 1:
            raise ValueError(f"{function} with a catalog takes the name of one table, got {table!r:.120}")
        table = table[0]
    found: ResolvedSource = catalog.resolve(str(table), reader=reader, mode=mode)
    return found
