"""How good a policy is: episodes in a simulator under a protocol that is stored with the score."""
