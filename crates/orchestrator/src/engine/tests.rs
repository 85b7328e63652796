//! The engine, driven input by input; every step is checked against the invariants, stored, and
//! compared with an engine that is restored from what was stored.

mod jobs;
mod nodes;
mod placement;
mod restoring;
mod retries;
mod world;
