"""Compose every due digest and write it to the outbox; sending is a separate step."""
