"""A trained policy, outside of training."""
