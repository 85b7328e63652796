//! Why a pull failed, derived from the Engine's message, which is all it returns.
//!
//! None of these is the task's own failure: another node may have the image, other credentials or
//! more space.

use super::credentials::RegistryLogin;
use crate::data::retry::AttemptError;

/// The problem, as far as the remedy differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    NotFound,
    Denied,
    Unreachable,
    NoSpace,
    WrongPlatform,
    Other,
}

/// Fragments of the Engine's messages, in lower case, and their meaning; the first match counts.
const WORDS: [(&str, Problem); 23] = [
    ("no space left on device", Problem::NoSpace),
    ("disk quota exceeded", Problem::NoSpace),
    ("no matching manifest for", Problem::WrongPlatform),
    ("does not match the specified platform", Problem::WrongPlatform),
    // Before "denied": for a missing image Docker Hub says both.
    ("pull access denied", Problem::Denied),
    ("unauthorized", Problem::Denied),
    ("no basic auth credentials", Problem::Denied),
    ("authentication required", Problem::Denied),
    ("denied", Problem::Denied),
    ("forbidden", Problem::Denied),
    ("manifest unknown", Problem::NotFound),
    ("name unknown", Problem::NotFound),
    ("not found", Problem::NotFound),
    ("connection refused", Problem::Unreachable),
    ("connection reset", Problem::Unreachable),
    ("no such host", Problem::Unreachable),
    ("no route to host", Problem::Unreachable),
    ("network is unreachable", Problem::Unreachable),
    ("timeout", Problem::Unreachable),
    ("server misbehaving", Problem::Unreachable),
    ("eof", Problem::Unreachable),
    ("received unexpected http status: 5", Problem::Unreachable),
    ("toomanyrequests", Problem::Unreachable),
];

// === impl Problem ===

impl Problem {
    pub(super) fn classify(message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        WORDS
            .iter()
            .find(|(words, _)| message.contains(words))
            .map_or(Self::Other, |(_, problem)| *problem)
    }

    /// What failed, and what to do.
    pub(super) fn attempt_error(
        self,
        image: &str,
        registry: &str,
        said: &str,
        known: &RegistryLogin,
    ) -> AttemptError {
        let said = said.trim();
        let (what, remedy) = match self {
            Self::NotFound => (
                "the registry does not have it",
                "check its name and tag, or load the image on the node".to_owned(),
            ),
            Self::Denied => (
                "the registry denies it, or does not have it",
                match &known.named {
                    Some(name) => format!(
                        "check its name, and the credentials '{name}' of the job's namespace"
                    ),
                    None => format!(
                        "check its name, name Credentials for {registry}, or give the agent some \
                         in its docker.credentials or in docker's own configuration, or load the \
                         image on the node"
                    ),
                },
            ),
            Self::Unreachable => (
                "the registry does not respond as expected",
                format!("check that the node reaches {registry}, or load the image on the node"),
            ),
            Self::NoSpace => (
                "the node has no space left for it",
                "free space on the disk of docker, or let the task run on another node".to_owned(),
            ),
            Self::WrongPlatform => (
                "it is not made for machines like this node",
                "let the task run on a node with another Architecture, or build the image for \
                 this one"
                    .to_owned(),
            ),
            Self::Other => (
                "docker refuses",
                "see what 'docker pull' says on the node, or load the image there".to_owned(),
            ),
        };
        let trouble = known
            .trouble
            .as_deref()
            .map(|trouble| format!("; no credentials were sent: {trouble}"));
        let message = format!(
            "image '{image}' cannot be pulled: {what} ({said}){}; {remedy}",
            trouble.unwrap_or_default()
        );
        match self {
            Self::Unreachable => AttemptError::transient(message),
            Self::NotFound | Self::Denied => AttemptError::definite(message),
            Self::NoSpace | Self::WrongPlatform | Self::Other => AttemptError::permanent(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of an Engine of release 20.10.
    #[test]
    fn the_engines_messages_are_classified() {
        for (said, wanted) in [
            (
                "manifest for host/a:1 not found: manifest unknown: manifest unknown",
                Problem::NotFound,
            ),
            (
                "pull access denied for nobody/nothing, repository does not exist or may require \
                 'docker login': denied: requested access to the resource is denied",
                Problem::Denied,
            ),
            ("Get \"http://h:1/v2/a/manifests/1\": no basic auth credentials", Problem::Denied),
            ("unauthorized: incorrect username or password", Problem::Denied),
            (
                "Get \"http://127.0.0.1:9/v2/\": dial tcp 127.0.0.1:9: connect: connection refused",
                Problem::Unreachable,
            ),
            (
                "Get \"https://absent.invalid/v2/\": dial tcp: lookup absent.invalid: no such host",
                Problem::Unreachable,
            ),
            ("unexpected EOF", Problem::Unreachable),
            ("received unexpected HTTP status: 503 Service Unavailable", Problem::Unreachable),
            (
                "failed to register layer: Error processing tar file(exit status 1): write /a: no \
                 space left on device",
                Problem::NoSpace,
            ),
            (
                "no matching manifest for linux/amd64 in the manifest list entries",
                Problem::WrongPlatform,
            ),
            ("filesystem layer verification failed for digest sha256:00", Problem::Other),
        ] {
            assert_eq!(Problem::classify(said), wanted, "{said}");
        }
    }

    #[test]
    fn every_problem_has_words_for_its_user() {
        let problems = api_types::rows!(Problem {
            Problem::NotFound => [Problem::NotFound],
            Problem::Denied => [Problem::Denied],
            Problem::Unreachable => [Problem::Unreachable],
            Problem::NoSpace => [Problem::NoSpace],
            Problem::WrongPlatform => [Problem::WrongPlatform],
            Problem::Other => [Problem::Other],
        });
        let message = |problem: Problem| match problem.attempt_error(
            "h/a:1",
            "h",
            "so it said",
            &RegistryLogin::default(),
        ) {
            AttemptError::Transient(failure) | AttemptError::Permanent(failure) => failure.message,
        };
        let said: Vec<_> = problems.into_iter().map(|(_, problem)| message(problem)).collect();
        assert!(said.iter().all(|text| api_types::testing::flaw(text).is_none()), "{said:?}");
        let expected = [
            "the registry does not have it (so it said); check its name and tag, or load the image \
             on the node",
            "the registry denies it, or does not have it (so it said); check its name, name \
             Credentials for h, or give the agent some in its docker.credentials or in docker's own \
             configuration, or load the image on the node",
            "the registry does not respond as expected (so it said); check that the node reaches h, \
             or load the image on the node",
            "the node has no space left for it (so it said); free space on the disk of docker, or \
             let the task run on another node",
            "it is not made for machines like this node (so it said); let the task run on a node \
             with another Architecture, or build the image for this one",
            "docker refuses (so it said); see what 'docker pull' says on the node, or load the \
             image there",
        ];
        assert_eq!(said, expected.map(|rest| format!("image 'h/a:1' cannot be pulled: {rest}")));
    }

    #[test]
    fn only_an_unreachable_registry_is_retried() {
        let error = Problem::Unreachable.attempt_error(
            "h/a:1",
            "h",
            "unexpected EOF",
            &RegistryLogin::default(),
        );
        assert!(matches!(error, AttemptError::Transient(_)), "{error:?}");
        let known =
            RegistryLogin { trouble: Some("no helper".to_owned()), ..RegistryLogin::default() };
        let error = Problem::Denied.attempt_error("h/a:1", "h", "denied\n", &known);
        let AttemptError::Permanent(failure) = error else { panic!("{error:?}") };
        assert!(failure.definite, "another node would hear the same");
        let error =
            Problem::NoSpace.attempt_error("h/a:1", "h", "no space", &RegistryLogin::default());
        assert!(matches!(error, AttemptError::Permanent(it) if !it.definite));
        assert_eq!(
            failure.message,
            "image 'h/a:1' cannot be pulled: the registry denies it, or does not have it \
             (denied); no credentials were sent: no helper; check its name, name Credentials for h, \
             or give the agent some in its docker.credentials or in docker's own configuration, \
             or load the image on the node"
        );
    }
}
