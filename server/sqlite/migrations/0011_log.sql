-- The log of commands (package process/eventlog): processes of sessions and durable runs. It was two
-- pairs of tables. Numbers are never used again: people and other rows name commands by them. The
-- highest of those that were deleted is in meta.
CREATE TABLE log (
    log        INTEGER PRIMARY KEY,
    owner      INTEGER NOT NULL DEFAULT 0,  -- the place of the process that writes it among those that share the file
    origin     INTEGER NOT NULL CHECK (origin IN (1, 2)), -- a process of a session, a run
    id         TEXT    NOT NULL,            -- the client's; the newest of its origin has it
    session    TEXT    NOT NULL DEFAULT '',
    client     TEXT    NOT NULL DEFAULT '',  -- its name, and where it came from
    peer       TEXT    NOT NULL DEFAULT '',
    pid        INTEGER NOT NULL DEFAULT 0,
    argv       TEXT    NOT NULL,            -- JSON, cut as in listings
    cwd        TEXT    NOT NULL,
    tty        INTEGER NOT NULL DEFAULT 0,
    sandbox    TEXT    NOT NULL DEFAULT '',
    started_ms INTEGER NOT NULL,
    evicted    INTEGER NOT NULL DEFAULT 0,  -- the events are not all there and never will be
    hidden     INTEGER NOT NULL DEFAULT 0,  -- its client has disposed of it or used its id again
    exit       TEXT,                        -- JSON; NULL if nobody has seen it
    ended_ms   INTEGER,                     -- NULL while it is written; what follows is set with it
    ends       INTEGER,                     -- rises with each end of a log; the highest of those that were deleted is in meta
    last       INTEGER NOT NULL DEFAULT 0,  -- number of the last event
    bytes      INTEGER NOT NULL DEFAULT 0,  -- of output that is kept
    printed    INTEGER NOT NULL DEFAULT 0   -- of output that there was
) STRICT;

INSERT INTO log (log, origin, id, argv, cwd, started_ms, evicted, exit, ended_ms, last, bytes, printed)
    SELECT run, 2, id, json_array('/bin/sh', '-c', command), cwd, started_ms, evicted,
        CASE WHEN code IS NOT NULL THEN json_object('code', code) END, exited_ms, coalesce(last, 0), bytes, bytes FROM run;
-- Logs of processes get numbers behind those of runs.
INSERT INTO log (log, origin, id, session, pid, argv, cwd, tty, sandbox, started_ms, exit, ended_ms, last, bytes, printed)
    SELECT log + (SELECT coalesce(max(run), 0) FROM run), 1, process_id, session_id, pid, argv, cwd, tty, sandbox, started_ms,
        exit, ended_ms, next - 1, bytes, bytes FROM process_log;
CREATE INDEX log_id ON log (id, log);
UPDATE log SET ends = o.n FROM (SELECT log AS l, row_number() OVER (ORDER BY ended_ms, log) AS n FROM log WHERE ended_ms IS NOT NULL) AS o WHERE l = log;
CREATE UNIQUE INDEX log_ends ON log (ends) WHERE ends IS NOT NULL;

-- Event n of log l has the key l << 32 | n, so that those of a log are together, and are written and
-- removed in the order of the file. Kind 0 is all output of a terminal, else stdout; 1 is stderr, and
-- 2 an exit, whose value is its code, as 4 bytes little endian. Earlier processes have their exit in
-- the log only.
ALTER TABLE run_event RENAME TO log_event;
INSERT INTO log_event (key, at_ms, kind, value)
    SELECT key + ((SELECT coalesce(max(run), 0) FROM run) << 32), started_ms, stream = 'stderr', data
    FROM process_output JOIN process_log ON log = key >> 32;

DROP TABLE run;
DROP TABLE process_output;
DROP TABLE process_log;

INSERT INTO meta VALUES ('last_log', 0), ('last_end', 0);
UPDATE meta SET v = 11 WHERE k = 'schema_version';
