"""Find problems of the service, measure it, and write to its operator."""
