//! The secrets that a task names, and values in it that look like secrets.

use std::collections::{BTreeMap, HashSet};

use api_types::engine::EngineType;
use api_types::secret::TaskSecret;
use api_types::source::InputSource;
use api_types::submission::TaskSecretSubmission;

use super::findings::Findings;
use super::paths::{Use, components};
use super::task::{TASK, of_task};
use crate::names;

/// Secrets of one task: each is a mount or a variable.
const MAX_SECRETS: usize = 64;

/// Words in the name of a variable whose value is most likely a secret.
const SECRET_WORDS: [&str; 6] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "PRIVATE_KEY"];

/// How values begin that are certainly secrets: keys of AWS, GitHub, GitLab, Slack, Stripe and this
/// service, and private keys in PEM.
const SECRET_PREFIXES: [&str; 12] = [
    "AKIA",
    "ASIA",
    "ghp_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "sk_live_",
    "jt1_",
    "jm1_",
    "ja1_",
    "jn1.",
    "-----BEGIN ",
];

pub(super) fn check(
    submitted: Vec<TaskSecretSubmission>,
    inputs: &[InputSource],
    engine: Option<EngineType>,
    findings: &mut Findings,
) -> Vec<TaskSecret> {
    let place = of_task!("Secrets");
    if submitted.len() > MAX_SECRETS {
        findings.refuse(place, format!("must not be more than {MAX_SECRETS}"));
        return Vec::new();
    }
    let (mut paths, mut variables) = (Vec::<String>::new(), HashSet::new());
    let mut secrets = Vec::with_capacity(submitted.len());
    for (index, submitted) in submitted.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        let secret = one(submitted, &place, engine, findings);
        let TaskSecret { path, env, .. } = &secret;
        let is_nested = |other: &String| {
            let (one, other): (Vec<_>, Vec<_>) =
                (components(path).collect(), components(other).collect());
            one.starts_with(&other) || other.starts_with(&one)
        };
        if !path.is_empty() {
            if let Some(other) = paths.iter().find(|other| is_nested(other)) {
                let reason =
                    format!("'{path}' and '{other}', of another secret, are not two files");
                findings.refuse(format!("{place}.Path"), reason);
            }
            findings.check_nesting(&format!("{place}.Path"), path, inputs);
            paths.push(path.clone());
        }
        if !env.is_empty() && !variables.insert(env.clone()) {
            let reason = format!("'{env}' is the variable of another secret");
            findings.refuse(format!("{place}.Env"), reason);
        }
        secrets.push(secret);
    }
    secrets
}

fn one(
    submitted: TaskSecretSubmission,
    place: &str,
    engine: Option<EngineType>,
    findings: &mut Findings,
) -> TaskSecret {
    let name = submitted.name.unwrap_or_default();
    let at_name = format!("{place}.Name");
    if name.is_empty() {
        findings.refuse(at_name, "is required: the name of a secret of the job's namespace");
    } else if !names::is_name(&name) {
        findings.refuse(at_name, names::RULE);
    }
    let env = submitted.env.unwrap_or_default();
    let mut path = submitted.path.unwrap_or_default();
    match (path.is_empty(), env.is_empty()) {
        // Where it would be is not known.
        (true, true) if name.is_empty() => {}
        (true, true) => path = TaskSecret::default_path(&name),
        (false, true) if path.ends_with('/') => {
            findings.refuse(format!("{place}.Path"), "must be the path of a file");
        }
        (false, true) => {
            findings.check_task_path(&format!("{place}.Path"), &path, Use::Secret, engine);
        }
        (true, false) => findings.check_variable(&format!("{place}.Env"), &env),
        (false, false) => {
            let reason = "a secret is in a file or in a variable; name it twice for both";
            findings.refuse(format!("{place}.Env"), reason);
        }
    }
    TaskSecret { name, path, env }
}

/// A value in a specification is shown to everybody who may read the job.
pub(super) fn warn_of_literals(env: &BTreeMap<String, String>, findings: &mut Findings) {
    let suspicious = env.iter().filter(|(name, value)| looks_secret(name, value));
    let names: Vec<_> = suspicious.map(|(name, _)| name.as_str()).collect();
    for name in names {
        findings.warn(format!(
            "{TASK}.Env.{name} looks like a secret, and everybody who may read the job sees it; \
             keep it with `jobctl secret set` and name it in {TASK}.Secrets"
        ));
    }
}

fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_named = SECRET_WORDS.iter().any(|word| name.contains(word)) && !is_reference(value);
    is_named || SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// Whether the value only says where the secret is, or is none.
fn is_reference(value: &str) -> bool {
    value.is_empty() || value.starts_with('/') || value.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_like_secrets_are_told_from_others() {
        for (name, value) in [
            ("DB_PASSWORD", "hunter2"),
            ("github_token", "x"),
            ("KEY", "AKIAIOSFODNN7EXAMPLE"),
            ("CERT", "-----BEGIN PRIVATE KEY-----\nMII"),
        ] {
            assert!(looks_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("DB_PASSWORD_FILE", "/run/secrets/db"),
            ("MAX_TOKENS", "4096"),
            ("PASSWORD", ""),
            ("HOME", "/root"),
            ("MODE", "fast"),
        ] {
            assert!(!looks_secret(name, value), "{name}={value}");
        }
    }
}
