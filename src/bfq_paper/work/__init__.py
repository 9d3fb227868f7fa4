"""How cells are filled: scores by training, times by measuring, the checkerboard."""
