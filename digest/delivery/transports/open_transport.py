"""Open the transport for a mail URL."""

from __future__ import annotations

from digest.delivery.transports.mail_url import MailServer, MailUrl
from digest.delivery.transports.transport import Transport
from digest.errors import SetupMismatch
from digest.site.site_profile import Site


def open_transport(mail: MailUrl, *, site: Site) -> Transport:
    """Return the transport for this mail URL (memory, a folder, one server or several) without connecting to one.

    Raises SetupMismatch if mail would leave this machine with links that are local or not https.
    """
    match mail.folder_format:
        case "memory":
            from digest.delivery.transports.memory import MemoryTransport

            return MemoryTransport()
        case "maildir":
            from digest.delivery.transports.maildir import MaildirTransport

            return MaildirTransport(mail.folder)
        case "eml":
            from digest.delivery.transports.eml_folder import EmlFolderTransport

            return EmlFolderTransport(mail.folder)
    if len(mail.servers) == 1:
        return open_server_transport(mail.servers[0], site=site)
    from digest.delivery.transports.server_pool import ServerPool

    return ServerPool({server.name: open_server_transport(server, site=site) for server in mail.servers})


def open_server_transport(server: MailServer, *, site: Site) -> Transport:
    """Return the transport to one mail server."""
    from digest.delivery.transports.smtp import SmtpTransport

    if not server.is_local:
        check_links(site, server.host)
    return SmtpTransport(server, helo=site.domain)


def check_links(site: Site, host: str) -> None:
    """Raise SetupMismatch if our links would not work outside this machine, or are not https."""
    if site.is_local or not site.is_https:
        raise SetupMismatch(
            f"Mail would leave through {host}, but its links would start with {site.url}, which readers cannot"
            " open safely. Set DIGEST_BASE_URL to your public https address."
        )
