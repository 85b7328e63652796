//! Several orchestrators on one PostgreSQL, and what ends their lead.
//!
//! Each row of the table of faults has a test here, which measures from the outside how long it
//! takes until a submission is acknowledged again. `just chaos` measures each five times.

mod agents;
mod answers;
mod clients;
mod clocks;
mod database;
mod loads;
mod lossless;
mod machine_gone;
mod measure;
mod processes;
mod promotions;
mod readers;
mod rotations;
mod standbys;
mod zombies;
