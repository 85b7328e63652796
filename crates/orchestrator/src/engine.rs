//! The pure heart: state, now and an input become changes and effects.

pub mod change;
pub mod demand;
pub mod input;

/// The state of everything that is live.
pub struct Engine {}

impl Engine {
    /// What a dry run says: per node, whether the demand would be placed on it now, and why not.
    pub fn preview(
        &self,
        _demand: &demand::Demand,
        _job_type: api_types::job::JobType,
        _count: u32,
    ) -> Vec<api_types::job::DryRunNode> {
        Vec::new()
    }
}
