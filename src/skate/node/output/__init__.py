"""Output of workers: logs, job output, the printer."""
