"""The SAC that trained the behavior policies in src/bfq/tasks/policies."""
