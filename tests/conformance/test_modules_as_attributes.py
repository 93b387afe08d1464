"""Modules that a program names after `import ray`, or after the import of a library, without importing them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

NAMED = {
    "ray": """
        ray.cloudpickle ray.experimental.dynamic_resources ray.experimental.internal_kv ray.runtime_env.runtime_env
        ray.util.debugpy ray.util.helpers ray.util.iter ray.util.pdb ray.util.rpdb
        ray.util.tpu ray.util.tracing
    """,
    "ray.data": """
        ray.air.config ray.air.constants ray.data.aggregate ray.data.block ray.data.catalog ray.data.checkpoint
        ray.data.collate_fn ray.data.datasource.datasink ray.data.datasource.datasource
        ray.data.datasource.file_based_datasource ray.data.datasource.filename_provider
        ray.data.datasource.partitioning ray.data.datasource.path_util
    """,
    "ray.train": """
        ray.train.backend ray.train.base_trainer ray.train.constants ray.train.context ray.train.error
        ray.train.v2.api.callback ray.train.v2.api.config ray.train.v2.api.exceptions
    """,
    "ray.tune": """
        ray.air.result ray.tune.analysis ray.tune.callback ray.tune.error ray.tune.execution.placement_groups
        ray.tune.experiment.trial ray.tune.logger.csv ray.tune.result ray.tune.schedulers.pbt ray.tune.search.sample
        ray.tune.search.variant_generator ray.tune.stopper.timeout ray.tune.trainable.util ray.tune.utils.util
    """,
    "ray.serve": "ray.serve.api ray.serve.config ray.serve.context ray.serve.exceptions ray.serve.handle ray.serve.schema",
}


@pytest.mark.parametrize("imported", NAMED)
def test_modules_are_attributes_of_their_packages(imported: str) -> None:
    alias = "import skate.compat; skate.compat.install()\n" if "skate" in sys.modules else ""
    program = textwrap.dedent(f"""
        import functools
        import ray
        import {imported}

        for name in {NAMED[imported].split()!r}:
            functools.reduce(getattr, name.split(".")[1:], ray)
        try:
            ray.util.nobody
        except AttributeError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", alias + program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "nobody" in done.stdout
