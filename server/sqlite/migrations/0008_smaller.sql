-- Parts are found by the beginning of their hash: an index with all of each hash was as large as the
-- hashes themselves.
DROP INDEX part_hash;
CREATE INDEX part_hash ON part (substr(hash, 1, 8));

-- disk_stat had the whole path of each row. The paths of directories are here once each.
CREATE TABLE disk_dir (
    id   INTEGER PRIMARY KEY,
    root INTEGER NOT NULL REFERENCES disk_root (id),
    path TEXT    NOT NULL,             -- relative, without a slash at either end
    UNIQUE (root, path)
) STRICT;

-- What something in it looked like when its content was that of the tree. The directory of disk_root
-- itself is a row without a name in the one without a path.
CREATE TABLE disk_entry (
    dir  INTEGER NOT NULL,
    name TEXT    NOT NULL,
    stat BLOB    NOT NULL,
    PRIMARY KEY (dir, name)
) STRICT, WITHOUT ROWID;

-- rtrim leaves of a path what ends with its last slash.
INSERT INTO disk_dir (root, path)
    SELECT DISTINCT root, rtrim(rtrim(path, replace(path, '/', '')), '/') FROM disk_stat ORDER BY 1, 2;
INSERT INTO disk_entry (dir, name, stat)
    SELECT d.id, substr(s.path, length(rtrim(s.path, replace(s.path, '/', ''))) + 1), s.stat
    FROM disk_stat s JOIN disk_dir d ON d.root = s.root AND d.path = rtrim(rtrim(s.path, replace(s.path, '/', '')), '/')
    ORDER BY 1, 2;
DROP TABLE disk_stat;

UPDATE meta SET v = 8 WHERE k = 'schema_version';
