"""The mathematics of flows: paths, times, maps between times, and solvers. No state, no data, no critic."""
