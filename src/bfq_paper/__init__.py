"""The paper's experiments, each as one command: what is run, where its data is from, what came of it.

`plan` says what is asked for, `results` what was found, `work` fills cells, `shown` shows them; the commands
themselves are here.
"""
