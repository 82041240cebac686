"""Read mail addresses, the parts of messages, and the names of DNS records."""
