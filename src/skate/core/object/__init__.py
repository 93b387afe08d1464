"""The objects that a node owns: values, holders and reference counts."""
