"""Back up the service into one SQLite file, and restore it without mailing anybody twice.

backup_file     write and open a backup         restore           copy a backup into an empty database
opt_out_file    opt-outs outside the database   reapply_opt_outs  opt-outs made since the backup
                                                expire_past       letters and editions due before the restore
"""

from digest.backups.backup_file import BackupFile, open_backup, write_backup
from digest.backups.opt_out_file import OPT_OUT_FILE, read_opt_outs, save_opt_outs_in_batches
from digest.backups.restore import RestoreReport, restore

__all__ = [
    "OPT_OUT_FILE",
    "BackupFile",
    "RestoreReport",
    "open_backup",
    "read_opt_outs",
    "restore",
    "save_opt_outs_in_batches",
    "write_backup",
]
