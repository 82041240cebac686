"""Store and look up papers and their observations; callers commit."""
