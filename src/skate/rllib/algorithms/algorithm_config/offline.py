"""Fields of a configuration: data from files, and recording."""

from __future__ import annotations

from skate.rllib.algorithms.algorithm_config.field import Field, Fields

OFFLINE_DATA: Fields = {
    "input_": Field("sampler", "must be sampler: learning from files is not available"),
    "offline_data_class": Field(None, "the class that reads files"),
    "input_read_method": Field("read_parquet", "the name of a function of ray.data that reads files"),
    "input_read_method_kwargs": Field({}, "arguments of that function"),
    "input_read_schema": Field({}, "names of columns in the files, by their name here"),
    "input_read_episodes": Field(False, "rows are packed episodes"),
    "input_read_sample_batches": Field(False, "rows are batches of the old stack"),
    "input_read_batch_size": Field(None, "rows of a block"),
    "input_filesystem": Field(None, "gcs, s3, abs, or a filesystem of pyarrow"),
    "input_filesystem_kwargs": Field({}, "arguments of the filesystem"),
    "input_compress_columns": Field(["obs", "new_obs"], "columns that are compressed"),
    "materialize_data": Field(False, "keep the raw data in memory"),
    "materialize_mapped_data": Field(True, "keep the prepared data in memory"),
    "map_batches_kwargs": Field({}, "arguments of map_batches"),
    "iter_batches_kwargs": Field({}, "arguments of iter_batches"),
    "ignore_final_observation": Field(False, "rows have no observation after the last step"),
    "prelearner_class": Field(None, "the class that prepares batches"),
    "prelearner_buffer_class": Field(None, "the class of its buffer"),
    "prelearner_buffer_kwargs": Field({}, "arguments of its buffer"),
    "prelearner_module_synch_period": Field(10, "batches between two updates of its module"),
    "prelearner_use_recorded_module_states": Field(
        False, "start a recorded sequence from its recorded state"
    ),
    "dataset_num_iters_per_learner": Field(None, "batches of an iteration of each learner"),
    "input_config": Field({}, "settings of an own reader"),
    "actions_in_input_normalized": Field(False, "recorded actions are in [-1, 1]"),
    "postprocess_inputs": Field(False, "accepted for compatibility"),
    "shuffle_buffer_size": Field(0, "accepted for compatibility"),
    "output": Field(None, "must be None: recording is not available"),
    "output_config": Field({}, "settings of an own writer"),
    "output_compress_columns": Field(["obs", "new_obs"], "columns that are compressed"),
    "output_max_file_size": Field(67108864, "bytes of a file"),
    "output_max_rows_per_file": Field(None, "rows of a file"),
    "output_write_remaining_data": Field(False, "write rows that do not fill a file"),
    "output_write_method": Field("write_parquet", "the name of a method of datasets that writes files"),
    "output_write_method_kwargs": Field({}, "arguments of that method"),
    "output_filesystem": Field(None, "gcs, s3, abs, or a filesystem of pyarrow"),
    "output_filesystem_kwargs": Field({}, "arguments of the filesystem"),
    "output_write_episodes": Field(True, "write packed episodes"),
    "offline_sampling": Field(False, "accepted for compatibility"),
}
