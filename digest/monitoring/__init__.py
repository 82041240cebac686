"""Find the service's problems, collect its figures, and send letters to its operator."""
