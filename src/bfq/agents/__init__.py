"""Agents: the contract, what several of them share, and one file per agent."""
