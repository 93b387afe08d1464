"""Names of modules' specs in multi-agent configurations."""
