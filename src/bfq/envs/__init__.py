"""Simulators: the world that data is made in and policies are judged in."""
