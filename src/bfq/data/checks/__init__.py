"""What can be wrong with a log, each defect with a name, a row and a remedy."""
