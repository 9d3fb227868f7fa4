"""How results are shown: table, page, figures, frames, and all of them written to a folder."""
