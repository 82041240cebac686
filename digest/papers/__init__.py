"""Define papers, store them in the catalog and compute their trending scores."""
