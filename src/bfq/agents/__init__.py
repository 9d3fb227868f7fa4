"""What is learned: one file an agent, all with the same three functions and none knowing another."""

from bfq.agents.agent import Acting, Agent, Batch, Spec, agent_names, get_agent

__all__ = ["Acting", "Agent", "Batch", "Spec", "agent_names", "get_agent"]
