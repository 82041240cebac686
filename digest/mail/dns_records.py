"""Look up TXT records in the DNS."""

from __future__ import annotations

LOOKUP_SECONDS = 3.0


class DnsUnavailable(Exception):
    """The DNS could not be queried."""


def txt_records(name: str) -> list[str]:
    """Return the TXT records of a DNS name; raise DnsUnavailable if the query fails."""
    import dns.exception
    import dns.resolver

    try:
        found = dns.resolver.resolve(name, "TXT", lifetime=LOOKUP_SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise DnsUnavailable(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return [b"".join(record.strings).decode("utf-8", "replace") for record in found]
