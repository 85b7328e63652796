//! The wall clock, for timestamps that people read; deadlines use the driver's service clock.

pub use control_plane::clock::wall as now;
