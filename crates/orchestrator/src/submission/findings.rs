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

#[cfg(test)]
thread_local! {
    /// Where this thread refused something: a file below `src`, and a line.
    pub(super) static REFUSED: std::cell::RefCell<std::collections::BTreeSet<(String, u32)>> =
        const { std::cell::RefCell::new(std::collections::BTreeSet::new()) };
}

/// For the table of all refusals.
#[cfg(test)]
fn note_refusal(at: &'static std::panic::Location<'static>) {
    let file = at.file().rsplit("/src/").next().unwrap_or_default();
    REFUSED.with_borrow_mut(|places| places.insert((file.to_owned(), at.line())));
}

// === impl Findings ===

impl Findings {
    #[track_caller]
    pub(super) fn refuse(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        #[cfg(test)]
        note_refusal(std::panic::Location::caller());
        self.problems.push(FieldError { path: path.into(), reason: reason.into() });
    }

    /// Whether something at this path was refused.
    pub(super) fn has(&self, path: &str) -> bool {
        self.problems.iter().any(|problem| problem.path == path)
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Adds what was found of a job of a graph.
    pub(super) fn adopt(&mut self, name: &str, other: Self) {
        self.problems.extend(other.problems.into_iter().map(|FieldError { path, reason }| {
            FieldError { path: format!("Jobs.{name}.{path}"), reason }
        }));
        self.warnings.extend(other.warnings.into_iter().map(|text| format!("{name}: {text}")));
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
