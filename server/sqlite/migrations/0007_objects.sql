-- Content that is not in chunk_data: of a chunk with loc 2 the object (package fs/objects) and
-- where it begins in it, in bytes. Content that a file of a directory has needs no chunk.
ALTER TABLE chunk ADD COLUMN object INTEGER;
ALTER TABLE chunk ADD COLUMN at     INTEGER;
CREATE INDEX chunk_object ON chunk (object) WHERE object IS NOT NULL;

UPDATE meta SET v = 7 WHERE k = 'schema_version';
