"""Manage subscribers: sign-up, topics, settings, pauses, unsubscribing, import and invitations.

The web form, the mail commands and the CLI call the functions of these modules, which do not commit, but for those
whose names say that they work in batches.
"""
