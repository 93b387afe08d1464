"""A dataset's description: its plan, its name, the statistics of its last run."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from skate import cloudpickle
from skate.data.context import DataContext
from skate.data.dataset.base import DatasetBase
from skate.data.execution.physical import Physical
from skate.data.execution.stats_summary import DatasetStatsSummary, summary_of
from skate.data.plan import explain as explaining
from skate.data.plan import operators as logical
from skate.data.plan.rules import optimized
from skate.data.relational.stages import with_stages
from skate.data.source.values import RefsDatasource

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Describing(DatasetBase):
    """A dataset's description: its plan, its name, the statistics of its last run."""

    @property
    def context(self) -> DataContext:
        """The settings that it runs under."""
        return self._context

    @property
    def name(self) -> str | None:
        """The name given by `set_name`."""
        return self._name

    def set_name(self, name: str | None) -> None:
        """Set the name shown in plans, progress and statistics; None for no name."""
        self._name = name

    def get_dataset_id(self) -> str:
        """An id that no other dataset has."""
        return f"{self._name or 'dataset'}_{self._id}"

    @staticmethod
    def copy(ds: Dataset, _deep_copy: bool = False, _as: type | None = None) -> Dataset:
        """Return a dataset with the same plan and settings."""
        context = ds._context.copy() if _deep_copy else ds._context
        made: Any = (_as or type(ds))(ds._plan, context, ds._name)
        found: Dataset = made
        return found

    def explain(self) -> None:
        """Print the plan as written, as optimized, and as executed."""
        better = optimized(self._plan)
        print("-------- Logical Plan --------")
        print(explaining.tree(self._plan))
        print("-------- Logical Plan (Optimized) --------")
        print(explaining.tree(better))
        print("-------- Physical Plan --------")
        print(Physical(self._context).build(with_stages(better, self._context)).text())

    def stats(self) -> str:
        """Return the statistics of the last run by operator, as text; before a run, only blocks that exist already."""
        if self._last_run is not None:
            return self._last_run.report()
        plan = self._plan
        if isinstance(plan, logical.FromBlocks):
            return f"Operator 1 {plan.name}: {len(plan.bundles)} blocks that exist already"
        if isinstance(plan, logical.Read) and isinstance(plan.datasource, RefsDatasource):
            return f"Operator 1 {plan.datasource.get_name()}: blocks of refs, not read yet"
        return ""

    def get_stats_summary(self, detail: bool = False) -> DatasetStatsSummary:
        """Return the statistics of the last run as numbers; without operators if it has not run. `detail` is
        accepted for compatibility.
        """
        return summary_of(self._last_run, self._name, self._id)

    # -- plans as bytes

    def has_serializable_lineage(self) -> bool:
        """True if the plan can be sent to another session: it holds no block or value of this session."""
        return not any(_is_here(each) for each in self._plan.walk())

    def serialize_lineage(self) -> bytes:
        """Serialize the plan, for `deserialize_lineage` in any session. Raises ValueError if it holds blocks
        of this session."""
        if not self.has_serializable_lineage():
            raise ValueError(
                "Lineage-based serialization is not supported for a dataset that starts from values or blocks "
                "of this session; write it with a write_*() method, and read the files in the other session"
            )
        blob: bytes = cloudpickle.dumps(copy.copy(self), protocol=5)
        return blob

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Return the dataset of a plan that `serialize_lineage` returned."""
        found: Dataset = cloudpickle.loads(serialized_ds)
        return found

    def __repr__(self) -> str:
        return explaining.shown(self._plan, self._name, type(self).__name__)


def _is_here(operator: logical.Operator) -> bool:
    """Return True if an operator starts from data that only this session has."""
    return isinstance(operator, logical.FromBlocks)
