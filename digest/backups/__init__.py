"""Back up the service into one SQLite file, and restore it without mailing anybody twice.

backup_file     write and open a backup         restore           copy a backup into an empty database
opt_out_file    opt-outs outside the database   reapply_opt_outs  opt-outs made since the backup
                                                expire_past       letters and editions due before the restore
"""
