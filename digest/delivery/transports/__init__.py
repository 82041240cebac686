"""Send messages by SMTP or LMTP, or store them in a Maildir, in a folder of .eml files, or in memory."""
