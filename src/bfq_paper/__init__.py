"""The paper's experiments: `bfq reproduce` runs them and compares with the published numbers.

experiments.toml declares them, parts.py and run.py run them, cells.py stores results, tables.py, figures.py and
pages.py show them. `bfq toy` trains on the checkerboard.
"""
