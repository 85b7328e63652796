//! What a run went through, or how it failed.

use std::fmt;

/// A promise that was broken, and the seed that shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

/// What a run went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub steps: u64,
    pub jobs: usize,
    pub executions: usize,
    pub orchestrator_deaths: u64,
    pub agent_deaths: u64,
    pub lost_messages: u64,
}

impl Summary {
    /// Of both runs.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            jobs: self.jobs + other.jobs,
            executions: self.executions + other.executions,
            orchestrator_deaths: self.orchestrator_deaths + other.orchestrator_deaths,
            agent_deaths: self.agent_deaths + other.agent_deaths,
            lost_messages: self.lost_messages + other.lost_messages,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, jobs, executions, orchestrator_deaths, agent_deaths, lost_messages } =
            self;
        write!(
            f,
            "{steps} steps: {jobs} jobs, {executions} executions, {lost_messages} messages lost, \
             the orchestrator died {orchestrator_deaths} times, agents {agent_deaths} times"
        )
    }
}

/// A fault of the service itself, put in to see that the simulation finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The orchestrator answers what it has not committed.
    AnswerBeforeCommit,
    /// An agent forgets its reports when they are sent, not when they are acknowledged.
    ForgetReports,
}
