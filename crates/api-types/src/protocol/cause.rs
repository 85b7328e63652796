//! Why an execution failed, as its agent judges it.

use serde::{Deserialize, Serialize};

/// Who caused a failure; it decides which retry budget is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FailureCause {
    /// The task: its exit code, or a limit it exceeded. `RetryPolicy` decides.
    #[default]
    Task,
    /// The execution timeout: the job fails regardless of its policy.
    Timeout,
    /// Its image, module or an input cannot be had on this node. Tried again on another node, and
    /// never held against the node.
    Fetch,
    /// Something that its task names does not exist yet, on whichever node: a secret, or
    /// credentials. The job waits for it as a whole, and no budget is charged.
    Missing,
    /// The node refused to run this task, while it ran a task of the agent in the same way. Tried
    /// once more on another node, then the task's failure; never held against the node. An agent
    /// reports it where `SessionAnswer.Causes` names it.
    Refused,
    /// Nothing failed: the node had no room after all, or is told to give the execution up.
    Room,
    /// The results of a run cannot be published. The slot has failed and the task is not run again.
    Publish,
    /// Any other failure that is not the task's own, such as an error of the agent or the engine.
    /// Tried again on another node. It is held against this one if a probe of the agent failed as
    /// well (`Report.Confirmed`), or if the tasks of several namespaces fail there.
    ///
    /// A cause from a newer release reads as this one: it is no failure of the task, and says
    /// nothing certain of the node.
    #[serde(other)]
    Node,
}

// === impl FailureCause ===

impl FailureCause {
    /// How `SessionAnswer.Causes` names [`FailureCause::Refused`].
    pub const REFUSED: &'static str = "Refused";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_keeps_its_word_and_one_from_a_newer_release_reads_as_the_node() {
        let words = ["Task", "Timeout", "Fetch", "Missing", "Refused", "Room", "Publish", "Node"];
        for word in words {
            let json = format!("\"{word}\"");
            let cause: FailureCause = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&cause).unwrap(), json);
        }
        let newer: FailureCause = serde_json::from_str("\"Eclipse\"").unwrap();
        assert_eq!(newer, FailureCause::Node);
        let refused = serde_json::to_string(&FailureCause::Refused).unwrap();
        assert_eq!(refused, format!("\"{}\"", FailureCause::REFUSED));
    }
}
