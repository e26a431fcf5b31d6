-- What there is once: schema_version, store_id (16 random bytes), created_ms.
CREATE TABLE meta (
    k TEXT PRIMARY KEY,
    v ANY  NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (k, v) VALUES
    ('schema_version', 1),
    ('store_id', randomblob(16)),
    ('created_ms', CAST(unixepoch('subsec') * 1000 AS INTEGER));

-- A namespace: a tree with its own counter of revisions.
CREATE TABLE ns (
    id     INTEGER PRIMARY KEY,
    name   TEXT    NOT NULL UNIQUE,
    root   INTEGER NOT NULL,           -- node.ino of "/"
    rev    INTEGER NOT NULL,           -- the last revision that was given
    files  INTEGER NOT NULL DEFAULT 0,
    dirs   INTEGER NOT NULL DEFAULT 1,
    bytes  INTEGER NOT NULL DEFAULT 0,
    config TEXT    NOT NULL            -- JSON
) STRICT;

-- A node: a file, directory or link, whatever its names. Numbers are never used again.
CREATE TABLE node (
    ino      INTEGER PRIMARY KEY AUTOINCREMENT,
    ns       INTEGER NOT NULL REFERENCES ns (id),
    kind     INTEGER NOT NULL CHECK (kind IN (1, 2, 3)), -- file, directory, link
    mode     INTEGER NOT NULL,
    size     INTEGER NOT NULL DEFAULT 0,
    nlink    INTEGER NOT NULL DEFAULT 1,
    mtime_ns INTEGER NOT NULL,
    btime_ns INTEGER NOT NULL,
    rev      INTEGER NOT NULL,         -- of the last change of content or metadata
    mime     TEXT,
    target   TEXT,                     -- links
    manifest BLOB,                     -- sha256 of the list of parts; NULL for a stub
    mount    INTEGER,
    stub     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX node_rev ON node (ns, rev);

-- An entry of a directory.
CREATE TABLE name (
    parent INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    child  INTEGER NOT NULL,
    ns     INTEGER NOT NULL,
    rev    INTEGER NOT NULL,           -- at which this name appeared or was moved here
    PRIMARY KEY (parent, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_child ON name (child);
CREATE INDEX name_rev ON name (ns, rev);

-- Removed paths.
CREATE TABLE tomb (
    ns    INTEGER NOT NULL,
    path  TEXT    NOT NULL,
    rev   INTEGER NOT NULL,
    prior BLOB,
    PRIMARY KEY (ns, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX tomb_rev ON tomb (ns, rev);

-- Moved directories whose tombs are not written out yet.
CREATE TABLE moved (
    ns       INTEGER NOT NULL,
    rev      INTEGER NOT NULL,
    old_path TEXT    NOT NULL,
    ino      INTEGER NOT NULL,
    PRIMARY KEY (ns, rev, old_path)
) STRICT, WITHOUT ROWID;

-- Content of files: window idx covers 512 KiB from idx * 524288 on.
CREATE TABLE part (
    ino  INTEGER NOT NULL,
    idx  INTEGER NOT NULL,
    hash BLOB    NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (ino, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX part_hash ON part (hash);

-- One row for each distinct chunk; small and hot.
CREATE TABLE chunk (
    hash    BLOB    PRIMARY KEY,
    size    INTEGER NOT NULL,
    loc     INTEGER NOT NULL,           -- bits: 1 in chunk_data, 2 an object, 4 inside a path object
    enc     INTEGER NOT NULL DEFAULT 0, -- at rest: 0 raw, 1 zstd; the hash is of the plain bytes
    seen_ms INTEGER NOT NULL,
    dead_ms INTEGER
) STRICT, WITHOUT ROWID;

-- The bytes: big rows, cold.
CREATE TABLE chunk_data (
    id    INTEGER PRIMARY KEY,
    hash  BLOB    NOT NULL UNIQUE,
    bytes BLOB    NOT NULL
) STRICT;

-- Files as objects of an object store, for the layout "path".
CREATE TABLE path_object (
    ino      INTEGER PRIMARY KEY,
    key      TEXT    NOT NULL UNIQUE,
    want_key TEXT,
    etag     TEXT,
    size     INTEGER NOT NULL
) STRICT;

-- How far synchronisation with each peer has come. A NULL path is the end of its revision.
CREATE TABLE peer (
    ns         INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    push_rev   INTEGER NOT NULL,
    push_path  TEXT,
    fetch_rev  INTEGER NOT NULL,
    fetch_path TEXT,
    seen_ms    INTEGER NOT NULL,
    PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;

-- Leases on paths.
CREATE TABLE lease (
    ns         INTEGER NOT NULL,
    path       TEXT    NOT NULL,
    token      TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    exclusive  INTEGER NOT NULL,
    subtree    INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (ns, path, token)
) STRICT, WITHOUT ROWID;

-- Sessions: what outlives a restart.
CREATE TABLE session (
    id         TEXT    PRIMARY KEY,
    ns         INTEGER NOT NULL,
    cwd        TEXT    NOT NULL,
    env        TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
