//! The embedded store: SQLite in WAL mode with `synchronous=FULL`.
