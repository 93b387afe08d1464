"""An extension of vLLM's workers on CPUs for pipeline parallel models; vLLM imports it in each worker."""

from __future__ import annotations

from typing import Any

from skate.installed import require


class PipelineStage:
    """Methods that vLLM adds to its workers (`worker_extension_cls`).

    A stage after the first copies its input into tensors that vLLM creates in a trial run. On CPUs there is none with
    `enforce_eager`, and the first request ends the engine (vLLM 0.32).
    """

    model_runner: Any

    def create_stage_input(self) -> None:
        """Create the tensors if they are missing and this is not the first stage."""
        groups = require("vllm.distributed.parallel_state", "the engine vLLM", "vllm")
        runner = self.model_runner
        if groups.get_pp_group().is_first_rank or runner.intermediate_tensors is not None:
            return
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
        )
