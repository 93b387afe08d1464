"""Tasks: templates, execution, retries and the functions they name."""
