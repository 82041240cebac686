"""Monitoring: problems of the service, health probes, figures, and the letter to the operator."""
