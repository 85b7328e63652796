//! Exit codes, all of them, and how a failure is told to a person.
//!
//! A script must be able to tell the end of its task from trouble on the way there. The code of a
//! task is passed on as it is by `run`, `wait` and `submit --wait`; everything else that goes
//! wrong has a code of its own between 120 and 125, where programs seldom have theirs (the same
//! choice as docker's 125 and `timeout`'s 124).

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Error;
use api_client::ClientError;
use api_types::ApiError;
use api_types::error::FieldError;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0.
    Done,
    /// 1 to 255: what the task's process ended with.
    Task(u8),
    /// 120: the arguments, the configuration, or a job file that cannot be read.
    Usage,
    /// 121: the service cannot be reached, or is not able to answer now.
    Unavailable,
    /// 122: the service refused.
    Refused,
    /// 123: the job ended without completing, and no exit code of its task says why.
    JobFailed,
    /// 124: `--timeout` was over first; the job goes on.
    TimedOut,
    /// 125: this program failed.
    Broken,
    /// 130: interrupted with Ctrl-C; the job goes on.
    Interrupted,
}

/// What the caller did wrong; there is nothing to ask the service.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

/// The table at the end of `--help`; `docs/jobctl.md` has the same.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0        done; for run, wait and submit --wait: the job completed
  1-255    run, wait, submit --wait: the exit code of the task that failed
  120      wrong arguments, configuration or job file
  121      the service cannot be reached, or cannot answer now
  122      the service refused
  123      the job ended without completing, not by an exit code of its task
  124      --timeout was over; the job goes on
  125      jobctl itself failed
  130      interrupted; the job goes on";

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Task(code) => code,
            Self::Usage => 120,
            Self::Unavailable => 121,
            Self::Refused => 122,
            Self::JobFailed => 123,
            Self::TimedOut => 124,
            Self::Broken => 125,
            Self::Interrupted => 130,
        }
    }

    /// Of several things that were asked for, the first that went wrong decides.
    pub(crate) fn and(self, next: Self) -> Self {
        if self == Self::Done { next } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

// === impl UsageError ===

impl UsageError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: String::new() }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// Tells what went wrong and what to do about it, on stderr, and says how to end.
pub(crate) fn report(error: &Error) -> Exit {
    let exit = classify(error);
    if exit != Exit::Done {
        // When stderr is gone nobody listens; the exit code still tells.
        let _ = std::io::stderr().write_all(told(error).as_bytes());
    }
    exit
}

fn classify(error: &Error) -> Exit {
    for cause in error.chain() {
        if let Some(refusal) = cause.downcast_ref::<ClientError>() {
            return match refusal {
                _ if refusal.is_transient() => Exit::Unavailable,
                ClientError::Api(_) => Exit::Refused,
                ClientError::Unreachable { .. } | ClientError::Protocol { .. } => Exit::Unavailable,
            };
        }
        if cause.is::<UsageError>() {
            return Exit::Usage;
        }
        // Whoever read the output has enough of it, like `head`.
        if cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
            == Some(ErrorKind::BrokenPipe)
        {
            return Exit::Done;
        }
    }
    Exit::Broken
}

fn told(error: &Error) -> String {
    for (depth, cause) in error.chain().enumerate() {
        if let Some(ClientError::Api(refusal)) = cause.downcast_ref() {
            let contexts: Vec<_> = error.chain().take(depth).map(ToString::to_string).collect();
            return refusal_told(&contexts, refusal);
        }
        if let Some(ClientError::Unreachable { base_url, reason, .. }) = cause.downcast_ref() {
            let reason = in_short(reason);
            return format!(
                "jobctl: no answer from {base_url}: {reason}\n  hint: is the service running there? \
                 --url, JOBCTL_URL or 'jobctl context set' name another address\n"
            );
        }
        if let Some(usage) = cause.downcast_ref::<UsageError>()
            && !usage.hint.is_empty()
        {
            return format!("jobctl: {error:#}\n  hint: {}\n", usage.hint);
        }
    }
    format!("jobctl: {error:#}\n")
}

fn refusal_told(contexts: &[String], refusal: &ApiError) -> String {
    let mut text = String::from("jobctl: ");
    for context in contexts {
        text.push_str(&format!("{context}: "));
    }
    text.push_str(&format!("{} ({:?})\n", refusal.message, refusal.code));
    for detail in &refusal.details {
        let line = match serde_json::from_value::<FieldError>(detail.clone()) {
            Ok(FieldError { path, reason }) if path.is_empty() => reason,
            Ok(FieldError { path, reason }) => format!("{path}: {reason}"),
            Err(_) => detail.as_str().map_or_else(|| detail.to_string(), str::to_owned),
        };
        text.push_str(&format!("  - {line}\n"));
    }
    if !refusal.hint.is_empty() {
        text.push_str(&format!("  hint: {}\n", as_commands(&refusal.hint)));
    }
    if refusal.status >= 500 {
        text.push_str(&format!("  the service logged it under request {}\n", refusal.request_id));
    }
    text
}

/// What the service's hints name, and the commands that ask for it.
const COMMANDS: [(&str, &str); 2] = [
    ("GET /api/v1/orchestrator/jobs", "'jobctl list -A'"),
    ("GET /api/v1/orchestrator/nodes", "'jobctl node list'"),
];

/// The service hints at operations; who sits here has commands.
fn as_commands(hint: &str) -> String {
    let found = COMMANDS.iter().find(|(operation, _)| hint.ends_with(operation));
    found.map_or_else(|| hint.to_owned(), |(operation, command)| hint.replace(operation, command))
}

/// Without the layers of the HTTP library, which say nothing that the address does not.
fn in_short(reason: &str) -> &str {
    reason.split_once("client error (Connect): ").map_or(reason, |(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use api_types::Code;

    use super::*;

    #[test]
    fn a_refusal_is_told_with_its_details_and_its_hint() {
        let refusal = ApiError::new(Code::AmbiguousId, "more than one job matches 'j-12ab34cd'")
            .with_hint("give more characters of the ID")
            .with_details(["j-1", "j-2"]);
        let error = Error::from(ClientError::Api(refusal));
        assert_eq!(
            told(&error),
            "jobctl: more than one job matches 'j-12ab34cd' (AmbiguousId)\n  - j-1\n  - j-2\n  \
             hint: give more characters of the ID\n"
        );
        assert_eq!(classify(&error), Exit::Refused);
    }

    #[test]
    fn trouble_is_told_apart_by_what_a_script_does_about_it() {
        let of = |code| classify(&Error::from(ClientError::Api(ApiError::new(code, "no"))));
        assert_eq!(of(Code::InvalidJob), Exit::Refused);
        assert_eq!(of(Code::TooManyRequests), Exit::Unavailable);
        assert_eq!(of(Code::StoreUnavailable), Exit::Unavailable);
        let wrong: Result<(), _> = Err(UsageError::new("no such context"));
        let wrong = wrong.context("read the configuration").unwrap_err();
        assert_eq!(classify(&wrong), Exit::Usage);
        assert_eq!(told(&wrong), "jobctl: read the configuration: no such context\n");
        let pipe = Error::from(std::io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(classify(&pipe), Exit::Done);
        assert_eq!(classify(&anyhow::anyhow!("a bug")), Exit::Broken);
    }

    #[test]
    fn the_help_names_every_code() {
        for exit in [
            Exit::Done,
            Exit::Usage,
            Exit::Unavailable,
            Exit::Refused,
            Exit::JobFailed,
            Exit::TimedOut,
            Exit::Broken,
            Exit::Interrupted,
        ] {
            let code = format!("\n  {} ", exit.code());
            assert!(EXIT_CODES.contains(&code), "{exit:?}");
        }
    }

    #[test]
    fn the_first_failure_of_several_decides() {
        assert_eq!(Exit::Done.and(Exit::Task(3)).and(Exit::JobFailed), Exit::Task(3));
    }
}
