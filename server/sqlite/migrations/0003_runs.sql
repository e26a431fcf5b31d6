-- Runs of commands (package process/shell).
CREATE TABLE run (
    run        INTEGER PRIMARY KEY,         -- never used again while a server lives
    id         TEXT    NOT NULL UNIQUE,     -- the client's
    started_ms INTEGER NOT NULL,
    evicted    INTEGER NOT NULL DEFAULT 0,  -- the events are not all there and never will be
    exited_ms  INTEGER,                     -- NULL while it is live
    code       INTEGER,
    last       INTEGER,                     -- number of the exit event
    bytes      INTEGER NOT NULL DEFAULT 0   -- of output that is kept; set at its end
) STRICT;

-- Their events. Event n of run r has the key r << 32 | n, so that those of a run are
-- together, and are written and removed in the order of the file.
CREATE TABLE run_event (
    key   INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind  INTEGER NOT NULL CHECK (kind IN (0, 1, 2)), -- stdout, stderr, exit
    value BLOB    NOT NULL                  -- of an exit the code, as 4 bytes little endian
) STRICT;

UPDATE meta SET v = 3 WHERE k = 'schema_version';
