"""Read each dump format as a stream; the format is recognised by content."""

from digest.dumps.formats.reader_interface import DumpReading, Header, RecordProblem
from digest.dumps.formats.recognition import FORMATS, format_named, read

__all__ = ["FORMATS", "DumpReading", "Header", "RecordProblem", "format_named", "read"]
