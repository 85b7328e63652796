//! All exit codes, and the error messages for users.
//!
//! A script must be able to distinguish the outcome of its task from other failures. `run`, `wait`
//! and `submit --wait` return the exit code of a task unchanged; every other failure has a code
//! from 120 to 125, a range that programs rarely use (like docker's 125 and `timeout`'s 124).

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Error;
use api_client::ClientError;
use api_types::ApiError;
use api_types::error::FieldError;
use oidc::ProviderError;

/// The outcome of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0.
    Done,
    /// 1 to 255: the exit code of the task.
    Task(u8),
    /// 120: invalid arguments or configuration, or an unreadable job file.
    Usage,
    /// 121: the service is unreachable or temporarily unable to respond.
    Unavailable,
    /// 122: the service refused the request.
    Refused,
    /// 123: the job ended without completing, for a reason other than its task's exit code.
    JobFailed,
    /// 124: `--timeout` expired; the job continues.
    TimedOut,
    /// 125: this program failed.
    Broken,
    /// 130: interrupted with Ctrl-C; the job continues.
    Interrupted,
}

/// A mistake of the user, found without contacting the service.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

/// A name that stands for nothing, or for more than one thing.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unresolved {
    pub(crate) message: String,
    /// Whether nothing has the name.
    pub(crate) is_unknown: bool,
    /// What it may stand for, a line each.
    pub(crate) details: Vec<String>,
    pub(crate) hint: &'static str,
}

/// The table at the end of `--help`; `docs/jobctl.md` has the same one.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0        success; for run, wait and submit --wait: the job completed
  1-255    run, wait, submit --wait: the exit code of the failed task
  120      invalid arguments, configuration or job file
  121      the service is unreachable or temporarily unable to respond
  122      the service refused the request
  123      the job did not complete, for a reason other than its task's exit code
  124      the timeout expired; the job continues
  125      jobctl itself failed
  130      interrupted; the job continues";

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

    /// Combines two outcomes: the first failure decides.
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

/// Writes the error and a hint to stderr, and returns the exit code.
pub(crate) fn report(error: &Error) -> Exit {
    let exit = classify(error);
    if exit != Exit::Done {
        // Writing fails when stderr is closed; the exit code still reports the failure.
        let _ = std::io::stderr().write_all(message_of(error).as_bytes());
    }
    exit
}

fn classify(error: &Error) -> Exit {
    for cause in error.chain() {
        if let Some(refusal) = cause.downcast_ref::<ClientError>() {
            return match refusal {
                _ if refusal.is_transient() => Exit::Unavailable,
                ClientError::Api(_) => Exit::Refused,
                ClientError::Unreachable { .. }
                | ClientError::Untrusted { .. }
                | ClientError::NoAnswer(_)
                | ClientError::Protocol { .. } => Exit::Unavailable,
            };
        }
        if cause.is::<Unresolved>() {
            return Exit::Refused;
        }
        if cause.is::<UsageError>() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<ProviderError>() {
            return match error {
                ProviderError::Unreachable { .. } => Exit::Unavailable,
                ProviderError::Invalid { .. } | ProviderError::Refused(_) => Exit::Refused,
            };
        }
        // The reader of the output, like `head`, has closed it.
        if cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
            == Some(ErrorKind::BrokenPipe)
        {
            return Exit::Done;
        }
    }
    Exit::Broken
}

fn message_of(error: &Error) -> String {
    for (depth, cause) in error.chain().enumerate() {
        if let Some(ClientError::Api(refusal)) = cause.downcast_ref() {
            let contexts: Vec<_> = error.chain().take(depth).map(ToString::to_string).collect();
            return refusal_message(&contexts, refusal);
        }
        if let Some(ClientError::Unreachable { base_url, reason, .. }) = cause.downcast_ref() {
            let reason = without_http_layers(reason);
            return format!(
                "jobctl: no response from {base_url}: {reason}\n  hint: check that the service runs there, \
                or set another address with --url, JOBCTL_URL or 'jobctl context set'\n"
            );
        }
        if let Some(ClientError::NoAnswer(none)) = cause.downcast_ref() {
            let reason = |error: &ClientError| without_http_layers(&error.brief());
            let attempts = none.attempts.iter();
            let attempts: String =
                attempts.map(|(url, error)| format!("  - {url}: {}\n", reason(error))).collect();
            return format!(
                "jobctl: no response from any URL of the service\n{attempts}  hint: check that it \
                runs there, or set other addresses with --url, JOBCTL_URL or 'jobctl context set'\n"
            );
        }
        if let Some(ClientError::Untrusted { base_url, reason, .. }) = cause.downcast_ref() {
            let reason = without_http_layers(reason);
            return format!(
                "jobctl: the certificate of {base_url} is not trusted: {reason}\n  hint: name its CA with \
                --ca FILE or --ca sha256:DIGEST; the orchestrator logs both when it starts\n"
            );
        }
        if let Some(Unresolved { details, hint, .. }) = cause.downcast_ref() {
            let details: String = details.iter().map(|line| format!("  - {line}\n")).collect();
            let hint = if hint.is_empty() { String::new() } else { format!("  hint: {hint}\n") };
            return format!("jobctl: {error:#}\n{details}{hint}");
        }
        if let Some(usage) = cause.downcast_ref::<UsageError>()
            && !usage.hint.is_empty()
        {
            return format!("jobctl: {error:#}\n  hint: {}\n", usage.hint);
        }
    }
    format!("jobctl: {error:#}\n")
}

fn refusal_message(contexts: &[String], refusal: &ApiError) -> String {
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
        text.push_str(&format!(
            "  the service logged the error under request {}\n",
            refusal.request_id
        ));
    }
    text
}

/// Operations in the service's hints, and the equivalent commands.
const COMMANDS: [(&str, &str); 2] = [
    ("GET /api/v1/orchestrator/jobs", "'jobctl list -A'"),
    ("GET /api/v1/orchestrator/nodes", "'jobctl node list'"),
];

/// Replaces the API operation in a hint of the service by the equivalent command.
fn as_commands(hint: &str) -> String {
    let found = COMMANDS.iter().find(|(operation, _)| hint.ends_with(operation));
    found.map_or_else(|| hint.to_owned(), |(operation, command)| hint.replace(operation, command))
}

/// Strips the layers of the HTTP library, which add nothing to the address; the proxy stays, which
/// may be what does not respond.
fn without_http_layers(reason: &str) -> String {
    let Some((layers, cause)) = reason.split_once("client error (Connect): ") else {
        return reason.to_owned();
    };
    match layers.split_once(": ") {
        Some((proxy, _)) if proxy.starts_with("through the proxy ") => format!("{proxy}: {cause}"),
        _ => cause.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use api_types::Code;

    use super::*;

    #[test]
    fn the_message_of_a_refusal_has_details_and_hint() {
        let refusal = ApiError::new(Code::AmbiguousId, "more than one job matches 'j-12ab34cd'")
            .with_hint("give more characters of the ID")
            .with_details(["j-1", "j-2"]);
        let error = Error::from(ClientError::Api(refusal));
        assert_eq!(
            message_of(&error),
            "jobctl: more than one job matches 'j-12ab34cd' (AmbiguousId)\n  - j-1\n  - j-2\n  \
             hint: give more characters of the ID\n"
        );
        assert_eq!(classify(&error), Exit::Refused);
    }

    #[test]
    fn failures_have_the_exit_code_that_scripts_need() {
        let of = |code| classify(&Error::from(ClientError::Api(ApiError::new(code, "no"))));
        assert_eq!(of(Code::InvalidJob), Exit::Refused);
        assert_eq!(of(Code::TooManyRequests), Exit::Unavailable);
        assert_eq!(of(Code::StoreUnavailable), Exit::Unavailable);
        let wrong: Result<(), _> = Err(UsageError::new("no such context"));
        let wrong = wrong.context("read the configuration").unwrap_err();
        assert_eq!(classify(&wrong), Exit::Usage);
        assert_eq!(message_of(&wrong), "jobctl: read the configuration: no such context\n");
        let pipe = Error::from(std::io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(classify(&pipe), Exit::Done);
        assert_eq!(classify(&anyhow::anyhow!("a bug")), Exit::Broken);
    }

    #[test]
    fn the_message_of_an_outage_names_the_proxy() {
        let of = |reason: &str| {
            message_of(&Error::from(ClientError::Unreachable {
                operation: "GET /jobs".to_owned(),
                base_url: "http://far:1".to_owned(),
                reason: reason.to_owned(),
            }))
        };
        let layers =
            "error sending request for url (http://far:1/): client error (Connect): refused";
        assert!(of(layers).starts_with("jobctl: no response from http://far:1: refused\n"));
        let proxied = of(&format!("through the proxy http://p:9 of the environment: {layers}"));
        let named = "http://far:1: through the proxy http://p:9 of the environment: refused\n";
        assert!(proxied.contains(named), "{proxied}");
    }

    #[test]
    fn the_help_lists_every_code() {
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
