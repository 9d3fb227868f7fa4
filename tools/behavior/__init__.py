"""Behavior policies made here: a small SAC, the simulators it learns in, and the weights it leaves."""
