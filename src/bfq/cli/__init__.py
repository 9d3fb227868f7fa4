"""The command line: one file a verb. Each has `add_arguments` and `run`, and imports JAX only in `run`."""
