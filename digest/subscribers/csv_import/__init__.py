"""Import subscribers from a file, or synchronize them with one.

import_list   all rows, in batches          sync_list    members missing from the list, and the removal limit
csv_rows      CSV and listmonk's columns    json_rows    one JSON object per line
row_values    parse and check cells         merge_row    changes to an existing subscriber
write_rows    write a batch                 import_report    counts and problems
"""
