"""What was found: cells with numbers, the file that keeps them, and what they say together."""
