"""Files as named arrays, read without executing anything in them: one format a module."""
