"""Recognise the format of a dump from its content and read the dump as a stream."""

from digest.dumps.formats.reader_interface import DumpReading, Header, RecordProblem
from digest.dumps.formats.recognition import FORMATS, format_named, read

__all__ = ["FORMATS", "DumpReading", "Header", "RecordProblem", "format_named", "read"]
