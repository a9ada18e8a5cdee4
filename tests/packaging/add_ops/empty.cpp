// Nothing: the project is configured, not built.
