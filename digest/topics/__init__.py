"""Find the papers that match a filter, score their relevance and explain why they match."""
