-- Names, paths and targets have characters of U+10FE80 to U+10FEFF for bytes that are not UTF-8 now (package
-- rawname). A real one of before becomes those of its four bytes: F4, 8F, BA or BB, and the last.
CREATE TEMP TABLE form (raw TEXT PRIMARY KEY, form TEXT NOT NULL);

INSERT OR IGNORE INTO form SELECT name, '' FROM name WHERE name GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';
INSERT OR IGNORE INTO form SELECT target, '' FROM node WHERE target GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';
INSERT OR IGNORE INTO form SELECT path, '' FROM tomb WHERE path GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';
INSERT OR IGNORE INTO form SELECT old_path, '' FROM moved WHERE old_path GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';
INSERT OR IGNORE INTO form SELECT path, '' FROM disk_dir WHERE path GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';
INSERT OR IGNORE INTO form SELECT name, '' FROM disk_entry WHERE name GLOB '*[' || char(1113728) || '-' || char(1113855) || ']*';

UPDATE form SET form = (
    WITH RECURSIVE done (n, text) AS (
        SELECT 0, ''
        UNION ALL
        SELECT n + 1, text || CASE WHEN unicode(substr(raw, n + 1, 1)) BETWEEN 1113728 AND 1113855
            THEN char(1113844, 1113743, 1113786 + (unicode(substr(raw, n + 1, 1)) >= 1113792), 1113728 + (unicode(substr(raw, n + 1, 1)) & 63))
            ELSE substr(raw, n + 1, 1) END
        FROM done WHERE n < length(raw)
    )
    SELECT text FROM done ORDER BY n DESC LIMIT 1
);

UPDATE name SET name = (SELECT form FROM form WHERE raw = name) WHERE name IN (SELECT raw FROM form);
UPDATE node SET target = (SELECT form FROM form WHERE raw = target) WHERE target IN (SELECT raw FROM form);
UPDATE tomb SET path = (SELECT form FROM form WHERE raw = path) WHERE path IN (SELECT raw FROM form);
UPDATE moved SET old_path = (SELECT form FROM form WHERE raw = old_path) WHERE old_path IN (SELECT raw FROM form);
UPDATE disk_dir SET path = (SELECT form FROM form WHERE raw = path) WHERE path IN (SELECT raw FROM form);
UPDATE disk_entry SET name = (SELECT form FROM form WHERE raw = name) WHERE name IN (SELECT raw FROM form);

DROP TABLE form;

UPDATE meta SET v = 9 WHERE k = 'schema_version';
