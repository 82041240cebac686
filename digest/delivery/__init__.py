"""Send each letter in the outbox once, within all limits, and record the outcome."""
