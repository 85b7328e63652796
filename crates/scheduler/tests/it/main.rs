//! Drives the scheduler input by input.
//!
//! Every step is checked against the invariants, stored, and compared with a scheduler restored
//! from the store.

mod blameless;
mod bounded;
mod damage;
mod health;
mod jobs;
mod mass_silence;
mod missing;
mod namespaces;
mod node_history;
mod nodes;
mod placement;
mod publishing;
mod restoring;
mod retries;
mod silence;
mod specs;
mod starvation;
mod time;
mod world;
