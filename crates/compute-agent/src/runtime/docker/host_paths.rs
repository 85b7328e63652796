//! Keeps paths of the node out of what users read: the Engine names the sources of mounts, and its
//! own directories, when it refuses something.

use agent_core::execution::Failure;

use crate::host::settings::Settings;
use crate::runtime::ExecutorError;

/// In the place of a path.
const HIDDEN: &str = "(a path of the node)";

/// Where the Engine and what it calls keep containers.
const OF_THE_ENGINE: [&str; 6] = [
    "/var/lib/docker",
    "/var/lib/containerd",
    "/run/docker",
    "/run/containerd",
    "/var/run/docker",
    "/proc/thread-self",
];

pub(super) struct HostPaths(Vec<String>);

// === impl HostPaths ===

impl HostPaths {
    pub(super) fn new(settings: &Settings) -> Self {
        let own = [&settings.data_dir, &settings.secrets_dir].into_iter();
        let own = own.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten();
        let own = own.map(|path| path.to_string_lossy().into_owned());
        let all = own.chain(OF_THE_ENGINE.map(str::to_owned));
        // The root would hide every path.
        Self(all.filter(|path| path.len() > 1 && path.starts_with('/')).collect())
    }

    pub(super) fn hide_in(&self, error: ExecutorError) -> ExecutorError {
        match error {
            ExecutorError::Failed(failure) => {
                ExecutorError::Failed(Failure { message: self.hide(&failure.message), ..failure })
            }
            other => other,
        }
    }

    /// Replaces each path that begins with one of these.
    fn hide(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('/') {
            let (before, from) = rest.split_at(at);
            hidden.push_str(before);
            let is_start = hidden.chars().next_back().is_none_or(|c| !is_of_a_path(c));
            let of_the_node = |prefix: &&String| {
                from.strip_prefix(prefix.as_str())
                    .is_some_and(|more| !more.starts_with(|c| is_of_a_path(c) && c != '/'))
            };
            let length = if is_start && self.0.iter().any(|prefix| of_the_node(&prefix)) {
                hidden.push_str(HIDDEN);
                from.find(|c| !is_of_a_path(c)).unwrap_or(from.len())
            } else {
                hidden.push('/');
                1
            };
            rest = &from[length..];
        }
        hidden.push_str(rest);
        hidden
    }
}

/// Whether a path goes on with this character, as the Engine writes paths.
fn is_of_a_path(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | ':' | ',' | ';' | '(' | ')' | '=' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_node_are_hidden_and_those_of_the_task_are_not() {
        let paths = HostPaths(vec!["/var/lib/agent".to_owned(), "/var/lib/docker".to_owned()]);
        for (text, hidden) in [
            (
                r#"error mounting "/var/lib/agent/executions/e-1/x" to rootfs at "/data": no"#,
                r#"error mounting "(a path of the node)" to rootfs at "/data": no"#,
            ),
            ("open /var/lib/docker/overlay2/1/merged/etc: no", "open (a path of the node): no"),
            ("exec: \"/usr/bin/x\": no", "exec: \"/usr/bin/x\": no"),
            ("src=/var/lib/agent,dst=/in", "src=(a path of the node),dst=/in"),
            ("/var/lib/agents /my/var/lib/agent/x", "/var/lib/agents /my/var/lib/agent/x"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(paths.hide(text), hidden);
        }
    }
}
