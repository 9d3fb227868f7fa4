"""What we say about results: statistics, tables, figures and one page, from result files only."""
