"""Load each dump file into the catalog once, and record the reason if a file or record is not loaded.

A dump is opened without following links, read completely before any record is stored, and identified by the
hash of its bytes. A bad file never stops the service. Files in `done/` are deleted after 30 days
(`DIGEST_KEEP`).
"""
