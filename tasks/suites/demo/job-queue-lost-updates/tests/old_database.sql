PRAGMA journal_mode = WAL;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'queued',
    worker TEXT,
    lease_until REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    result TEXT
);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('submitted', 5), ('claimed', 9), ('completed', 1);
INSERT INTO jobs (id, key, payload, priority, state, worker, lease_until, attempts, result) VALUES
    (1, 'a', '"first a"', 0, 'done', 'w1', 1000.0, 1, '"r1"'),
    (2, 'b', '"first b"', 5, 'queued', NULL, NULL, 0, NULL),
    (3, 'b', '"second b"', 7, 'queued', NULL, NULL, 0, NULL),
    (4, NULL, '{"n": 4}', 0, 'running', 'w2', 1000.0, 2, NULL),
    (5, 'c', '"c"', 0, 'done', 'w2', 1000.0, 3, 'null'),
    (6, NULL, '[6]', 0, 'queued', NULL, NULL, 0, NULL),
    (7, 'a', '"second a"', 0, 'done', 'w1', 1000.0, 1, '"r7"');
