"""Agents: one file per method, each with the same three functions."""

from bfq.agents.agent import Acting, Agent, Batch, Spec

__all__ = ["Acting", "Agent", "Batch", "Spec"]
