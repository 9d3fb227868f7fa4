"""The loop: a population of members, trained as one compiled program, watched, saved and resumed."""
