"""Data made here: policies, planners and oracles rolled out in simulators, a block of episodes at a time."""
