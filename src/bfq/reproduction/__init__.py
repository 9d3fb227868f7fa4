"""The paper's experiments, each as one command: what is run, where its data is from, what came of it."""
