"""Delivery: send what is in the outbox, once, within every limit, and record what became of it."""
