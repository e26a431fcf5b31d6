-- Entries, by bucket and key.
CREATE TABLE entries (
    bucket   TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    value    BLOB    NOT NULL,
    revision INTEGER NOT NULL UNIQUE CHECK (revision > 0),
    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;

-- The last revision that was given, in one row.
CREATE TABLE revisions (
    one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL CHECK (last >= 0)
) STRICT;

INSERT INTO revisions (one, last) VALUES (1, 0);
