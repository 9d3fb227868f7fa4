"""The mathematics of diffusion: noise schedules, denoising, solvers, consistency. No state, no critic."""
