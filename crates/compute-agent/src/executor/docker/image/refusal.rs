//! Why an image cannot be had: told from the Engine's words, which are all that it gives.
//!
//! None of it is the task's own failure: another node may have the image, other credentials or
//! more room.

use crate::attempts::Setback;

/// What is wrong, as far as it asks for something different to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    NotFound,
    Denied,
    Unreachable,
    NoSpace,
    WrongPlatform,
    Other,
}

/// Words of the Engine, in lower case, and what they mean; the first that fits counts.
const WORDS: [(&str, Problem); 23] = [
    ("no space left on device", Problem::NoSpace),
    ("disk quota exceeded", Problem::NoSpace),
    ("no matching manifest for", Problem::WrongPlatform),
    ("does not match the specified platform", Problem::WrongPlatform),
    // Before "denied": Docker Hub says both of an image that it does not have.
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
    pub(super) fn of(message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        WORDS
            .iter()
            .find(|(words, _)| message.contains(words))
            .map_or(Self::Other, |(_, problem)| *problem)
    }

    /// What failed, and what to do; `trouble` is why there were no credentials, if there should
    /// have been.
    pub(super) fn setback(
        self,
        image: &str,
        registry: &str,
        said: &str,
        trouble: Option<&str>,
    ) -> Setback {
        let said = said.trim();
        let (what, remedy) = match self {
            Self::NotFound => (
                "the registry does not have it",
                "check its name and tag, or load the image on the node".to_owned(),
            ),
            Self::Denied => (
                "the registry denies it, or does not have it",
                format!(
                    "check its name, and the credentials for {registry} in the agent's \
                     docker.credentials or in docker's own configuration, or load the image on \
                     the node"
                ),
            ),
            Self::Unreachable => (
                "the registry does not answer as it should",
                format!("check that the node reaches {registry}, or load the image on the node"),
            ),
            Self::NoSpace => (
                "the node has no space left for it",
                "make room on the disk of docker, or let the task run on another node".to_owned(),
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
        let trouble = trouble.map(|trouble| format!("; no credentials were sent: {trouble}"));
        let message = format!(
            "image '{image}' cannot be pulled: {what} ({said}){}; {remedy}",
            trouble.unwrap_or_default()
        );
        match self {
            Self::Unreachable => Setback::passing(message),
            _ => Setback::lasting(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an Engine of release 20.10 says them.
    #[test]
    fn the_engine_s_words_are_understood() {
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
            assert_eq!(Problem::of(said), wanted, "{said}");
        }
    }

    #[test]
    fn only_a_registry_that_does_not_answer_is_asked_again() {
        let setback = Problem::Unreachable.setback("h/a:1", "h", "unexpected EOF", None);
        assert!(matches!(setback, Setback::Passing(_)), "{setback:?}");
        let setback = Problem::Denied.setback("h/a:1", "h", "denied\n", Some("no helper"));
        let Setback::Lasting(failure) = setback else { panic!("{setback:?}") };
        assert_eq!(
            failure.message,
            "image 'h/a:1' cannot be pulled: the registry denies it, or does not have it \
             (denied); no credentials were sent: no helper; check its name, and the credentials \
             for h in the agent's docker.credentials or in docker's own configuration, or load \
             the image on the node"
        );
    }
}
