//! The stages between acceptance and start.

/// A stage between acceptance and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Until the orchestrator orders the run.
    GoAhead,
    Inputs,
    /// Pulling the image or compiling the module, and creating the container.
    Make,
    Start,
}

// === impl Stage ===

impl Stage {
    /// The label value.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::GoAhead => "go_ahead",
            Self::Inputs => "inputs",
            Self::Make => "make",
            Self::Start => "start",
        }
    }

    pub(super) const fn span(self) -> &'static str {
        match self {
            Self::GoAhead => "go ahead",
            Self::Inputs => "fetch inputs",
            Self::Make => "make",
            Self::Start => "start",
        }
    }
}
