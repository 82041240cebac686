"""Import subscribers from a file, or synchronize them with one.

import_list   all rows, in batches          sync_list    members missing from the list, and the removal limit
csv_rows      CSV and listmonk's columns    json_rows    one JSON object per line
row_values    parse and check cells         merge_row    changes to an existing subscriber
write_rows    write a batch                 import_report    counts and problems
"""

from digest.subscribers.csv_import.csv_rows import CsvRows, file_columns
from digest.subscribers.csv_import.import_list import import_in_batches
from digest.subscribers.csv_import.import_report import ImportProblem, ImportReport
from digest.subscribers.csv_import.json_rows import JsonRows
from digest.subscribers.csv_import.sync_list import sync_in_batches

__all__ = [
    "CsvRows",
    "ImportProblem",
    "ImportReport",
    "JsonRows",
    "file_columns",
    "import_in_batches",
    "sync_in_batches",
]
