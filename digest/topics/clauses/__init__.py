"""Parse one clause of a filter: the field before the colon and the value after it."""
