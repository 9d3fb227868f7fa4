"""One reader for each kind of file that data comes in."""
