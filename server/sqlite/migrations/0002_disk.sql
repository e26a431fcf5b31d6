-- What package fs/disk knows of directories that are kept in step with trees.

-- A directory: which tree's mount it stands for, and what identifies it.
CREATE TABLE disk_root (
    id    INTEGER PRIMARY KEY,
    tree  TEXT NOT NULL,               -- ns.name
    mount TEXT NOT NULL,               -- a path of the tree
    state BLOB NOT NULL,
    UNIQUE (tree, mount)
) STRICT;

-- What a path below it looked like when its content was that of the tree.
CREATE TABLE disk_stat (
    root INTEGER NOT NULL REFERENCES disk_root (id),
    path TEXT    NOT NULL,             -- relative, without a slash at either end
    stat BLOB    NOT NULL,
    PRIMARY KEY (root, path)
) STRICT, WITHOUT ROWID;

-- Paths where the tree has something that the directory may not have yet.
CREATE TABLE disk_journal (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    root  INTEGER NOT NULL REFERENCES disk_root (id),
    paths BLOB    NOT NULL             -- each with a byte that says why, and ended by NUL
) STRICT;
CREATE INDEX disk_journal_root ON disk_journal (root);

UPDATE meta SET v = 2 WHERE k = 'schema_version';
