"""Environments: built from an id, stepped together, and set to logged states."""
