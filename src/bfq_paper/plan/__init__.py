"""What is asked for: the experiments as data, the options that change them, the data of their rows."""
