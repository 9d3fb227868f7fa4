"""Pure networks: Equinox modules whose leaves are all arrays, so that they can be stacked and vmapped."""
