-- Logs of processes (package process), for when their session or server is gone.
CREATE TABLE process_log (
    log        INTEGER PRIMARY KEY,
    process_id TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    argv       TEXT    NOT NULL,            -- JSON, cut as in listings
    cwd        TEXT    NOT NULL,
    tty        INTEGER NOT NULL,
    sandbox    TEXT    NOT NULL,
    started_ms INTEGER NOT NULL,
    next       INTEGER NOT NULL,            -- number that the next event would have
    exit       TEXT,                        -- JSON; NULL before there is one
    ended_ms   INTEGER                      -- NULL while it is written
) STRICT;
CREATE INDEX process_log_id ON process_log (process_id, log);

-- Their output. Event n of log l has the key l << 32 | n.
CREATE TABLE process_output (
    key    INTEGER PRIMARY KEY,
    stream TEXT    NOT NULL,
    data   BLOB    NOT NULL
) STRICT;

UPDATE meta SET v = 4 WHERE k = 'schema_version';
