-- Revisions are numbers of 51 bits. Those of a tree's nodes and names are counted from a base of the
-- tree here: they are small.
ALTER TABLE ns ADD COLUMN base INTEGER NOT NULL DEFAULT 0;
UPDATE ns SET base = coalesce((SELECT min(node.rev) FROM node WHERE node.ns = ns.id AND node.rev > 0), rev);

-- The hash of the only part of a file, which is as large as the file. Such a file has no row in part,
-- and no manifest here, which follows from the two.
ALTER TABLE node ADD COLUMN only BLOB;

-- A name's revision is twice what it is above the base, and one more if it is not above that of the
-- node: of most names, which their nodes were made with. Those are found by the nodes' revisions.
DROP INDEX name_rev;
UPDATE name SET rev = (rev - (SELECT base FROM ns WHERE id = name.ns)) * 2
    + coalesce(rev <= (SELECT node.rev FROM node WHERE ino = name.child), 0);
CREATE INDEX name_rev ON name (ns, rev) WHERE rev & 1 = 0;

DROP INDEX part_hash;
ALTER TABLE part RENAME TO all_parts;
DROP INDEX node_rev;
UPDATE node SET
    rev = rev - (SELECT base FROM ns WHERE id = node.ns),
    (manifest, only) = (SELECT CASE WHEN p.hash IS NULL THEN node.manifest END, p.hash
        FROM (SELECT 1) LEFT JOIN all_parts p ON p.ino = node.ino AND p.idx = 0 AND p.size = node.size
            AND NOT EXISTS (SELECT 1 FROM all_parts q WHERE q.ino = node.ino AND q.idx > 0));
CREATE INDEX node_rev ON node (ns, rev);

CREATE TABLE part (
    ino  INTEGER NOT NULL,
    idx  INTEGER NOT NULL,
    hash BLOB    NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (ino, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO part SELECT p.* FROM all_parts p WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.ino = p.ino AND n.only IS NOT NULL);
DROP TABLE all_parts;

-- Four bytes of a hash lead to few others.
CREATE INDEX part_hash ON part (substr(hash, 1, 4));
CREATE INDEX node_only ON node (substr(only, 1, 4)) WHERE only IS NOT NULL;

-- What things in a directory looked like when their content was that of the tree, of some in a row
-- in the order of their names: those from first on, up to the next row. The first row of a directory
-- begins with ''. The directory of disk_root itself is what has no name in the one without a path.
-- Migration 0010 in Go fills it from disk_dir and disk_entry, and drops them.
CREATE TABLE disk_block (
    root    INTEGER NOT NULL REFERENCES disk_root (id),
    dir     TEXT    NOT NULL,          -- relative, without a slash at either end
    first   TEXT    NOT NULL,
    entries BLOB    NOT NULL,          -- see block.go
    PRIMARY KEY (root, dir, first)
) STRICT, WITHOUT ROWID;

UPDATE meta SET v = 10 WHERE k = 'schema_version';
