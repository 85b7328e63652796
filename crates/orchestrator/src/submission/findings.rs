//! The findings of all checks of a submission.

use api_types::error::FieldError;

/// Problems and warnings found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<FieldError>,
    pub(super) warnings: Vec<String>,
    /// Regular expressions to compile, each with its path.
    pub(super) regexes: Vec<(String, String)>,
}

// === impl Findings ===

impl Findings {
    #[track_caller]
    pub(super) fn refuse(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        #[cfg(test)]
        super::tests::note_refusal(std::panic::Location::caller());
        self.problems.push(FieldError { path: path.into(), reason: reason.into() });
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The value, or a problem with the reason.
    #[track_caller]
    pub(super) fn take<T, E: std::fmt::Display>(
        &mut self,
        path: &str,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(path, error.to_string());
                None
            }
        }
    }
}
