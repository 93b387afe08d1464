"""Amounts of CPU, GPU, memory and custom resources."""
