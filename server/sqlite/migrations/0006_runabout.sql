-- What people are told of a run; of earlier ones nothing is known.
ALTER TABLE run ADD COLUMN command TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN cwd     TEXT NOT NULL DEFAULT '';

UPDATE meta SET v = 6 WHERE k = 'schema_version';
