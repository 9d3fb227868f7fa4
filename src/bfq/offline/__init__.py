"""What a log says about a policy, without a simulator."""
