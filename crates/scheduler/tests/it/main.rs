//! Drives the scheduler input by input.
//!
//! Every step is checked against the invariants, stored, and compared with a scheduler restored
//! from the store.

mod blameless;
mod bounded;
mod counterparts;
mod damage;
mod definite;
mod demand;
mod dependencies;
mod groups;
mod health;
mod idle;
mod jobs;
mod leftovers;
mod limits;
mod mass_silence;
mod missing;
mod namespaces;
mod node_history;
mod node_names;
mod nodes;
mod outcomes;
mod phases;
mod placement;
mod probes;
mod publishing;
mod quotas;
mod reasons;
mod refused;
mod reruns;
mod restoring;
mod retries;
mod second_agent;
mod shares;
mod silence;
mod specs;
mod starvation;
mod tenants;
mod time;
mod world;
