//! The scheduler, driven input by input; every step is checked against the invariants, stored, and
//! compared with a scheduler that is restored from what was stored.

mod health;
mod jobs;
mod node_history;
mod nodes;
mod placement;
mod restoring;
mod retries;
mod silence;
mod time;
mod world;
