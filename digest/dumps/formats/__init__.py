"""Recognise the format of a dump from its content and read the dump as a stream."""
