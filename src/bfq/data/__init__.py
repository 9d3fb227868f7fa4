"""Transitions: one type, where they come from, and how they are prepared for learning."""
