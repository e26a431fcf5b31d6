-- How much output of a log is kept.
ALTER TABLE process_log ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE meta SET v = 5 WHERE k = 'schema_version';
