//! The secrets of an execution: requested just before its task is created, and never written to a
//! disk.
//!
//! The ledger, logs and reports have names and versions alone. An agent that starts again before the
//! task has started asks again.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::job::Task;
use api_types::protocol::Work;
use api_types::secret::{SecretValue, TaskSecret};
use tracing::warn;
use zeroize::Zeroizing;

use super::handover::Handover;
use crate::data::progress::Progress;
use crate::host::secrets_dir::{SecretsDir, below};

/// What a node without a place for secrets says of a task that needs one.
const NO_PLACE: &str =
    "the task names secrets, and this node has no directory in memory for them (secrets_dir)";

/// Asks for secrets, and keeps them for as long as a task needs them.
#[derive(Debug)]
pub(crate) struct Secrets {
    handover: Handover,
    dir: Option<SecretsDir>,
}

/// The secrets of one execution, for its engine.
#[derive(Clone, Default)]
pub(crate) struct ExecutionSecrets {
    /// By the names of the variables.
    pub(crate) variables: BTreeMap<String, Zeroizing<String>>,
    /// The same in a file, for an engine that reads them from one.
    pub(crate) variables_file: Option<PathBuf>,
    /// The paths in the task.
    pub(crate) paths: Vec<String>,
    /// Where the files lie, laid out as the task sees them.
    tree: PathBuf,
}

// === impl Secrets ===

impl Secrets {
    pub(crate) fn new(handover: Handover, dir: Option<SecretsDir>) -> Self {
        Self { handover, dir }
    }

    /// For what else is handed over.
    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    /// Why the task cannot run here, judging by its specification.
    pub(crate) fn admit(&self, task: &Task) -> Result<(), String> {
        match &self.dir {
            None if !task.secrets.is_empty() => Err(NO_PLACE.to_owned()),
            _ => Ok(()),
        }
    }

    /// Asks for the secrets of an execution and lays them out, however long the orchestrator is
    /// away; the caller cancels it.
    pub(crate) async fn hand_over(
        &self,
        id: ExecutionId,
        work: &Work,
        progress: &Progress,
    ) -> Result<ExecutionSecrets, Failure> {
        if work.task.secrets.is_empty() {
            return Ok(ExecutionSecrets::default());
        }
        let dir = self.dir.clone().ok_or_else(|| Failure::node(NO_PLACE))?;
        let waiting = || "waits for the orchestrator, to ask it for secrets".to_owned();
        // A large future, in every execution's.
        let values = progress.during(Box::pin(self.handover.secrets(id)), waiting).await?;
        progress.tell(received(&values)).await;
        let wanted = work.task.secrets.clone();
        let laying_out = tokio::task::spawn_blocking(move || lay_out(&dir, id, &wanted, &values));
        laying_out
            .await
            .map_err(|error| Failure::node(format!("laying out the secrets failed: {error}")))?
    }

    /// Removes the secrets of an execution whose task has ended.
    pub(crate) async fn forget(&self, id: ExecutionId) {
        let Some(dir) = self.dir.clone() else { return };
        let removing = tokio::task::spawn_blocking(move || remove(&dir, id));
        if let Err(error) = removing.await {
            warn!(execution = %id, %error, "the removal of secrets failed");
        }
    }

    /// As [`forget`](Self::forget), on a thread that may wait for the file system.
    pub(crate) fn forget_blocking(&self, id: ExecutionId) {
        if let Some(dir) = &self.dir {
            remove(dir, id);
        }
    }

    /// The executions whose secrets are here.
    pub(crate) fn list(&self) -> io::Result<Vec<ExecutionId>> {
        self.dir.as_ref().map_or(Ok(Vec::new()), SecretsDir::list)
    }
}

fn remove(dir: &SecretsDir, id: ExecutionId) {
    if let Err(error) = dir.remove(id) {
        warn!(execution = %id, %error, "cannot remove the secrets of an execution");
    }
}

/// For the history.
fn received(values: &[SecretValue]) -> String {
    let named = |value: &SecretValue| format!("'{}' (version {})", value.name, value.version);
    let named: Vec<_> = values.iter().map(named).collect();
    match named.as_slice() {
        [one] => format!("received secret {one}"),
        several => format!("received secrets {}", several.join(", ")),
    }
}

fn lay_out(
    dir: &SecretsDir,
    id: ExecutionId,
    wanted: &[TaskSecret],
    values: &[SecretValue],
) -> Result<ExecutionSecrets, Failure> {
    let in_memory = |error| Failure::node(format!("cannot write a secret to memory: {error}"));
    let mut handed_over = ExecutionSecrets { tree: dir.tree(id), ..ExecutionSecrets::default() };
    // An earlier agent may have left some.
    dir.remove(id).map_err(in_memory)?;
    for (index, TaskSecret { name, path, env }) in wanted.iter().enumerate() {
        let value = values.get(index).filter(|value| value.name == *name);
        let bytes = value.and_then(SecretValue::bytes).map(Zeroizing::new).ok_or_else(|| {
            Failure::node(format!("the orchestrator did not send the secret '{name}'"))
        })?;
        if env.is_empty() {
            // The task names the path, and not every path can exist.
            dir.write_file(id, path, &bytes).map_err(|error| {
                Failure::refused(format!("cannot write the secret at '{path}': {error}"))
            })?;
            handed_over.paths.push(path.clone());
            continue;
        }
        let text = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| {
            Failure::task(format!(
                "secret '{name}' is not text and cannot be the variable '{env}'; give the task a \
                 Path for it"
            ))
        })?;
        handed_over.variables.insert(env.clone(), Zeroizing::new(text.to_owned()));
    }
    if !handed_over.variables.is_empty() {
        let plain: BTreeMap<&str, &str> = handed_over
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let json = serde_json::to_vec(&plain).map(Zeroizing::new).map_err(io::Error::from);
        let written = json.and_then(|json| dir.write_variables(id, &json));
        written.map_err(in_memory)?;
        handed_over.variables_file = Some(dir.variables(id));
    }
    Ok(handed_over)
}

// === impl ExecutionSecrets ===

impl ExecutionSecrets {
    /// Where the file that the task sees at this path is on the node, or the directory around it.
    pub(crate) fn on_node(&self, path: &str) -> PathBuf {
        below(&self.tree, path)
    }
}

impl fmt::Debug for ExecutionSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionSecrets").field("paths", &self.paths).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::settings::Settings;
    use crate::testing::execution_id;

    fn wanted(name: &str, path: &str, env: &str) -> TaskSecret {
        TaskSecret { name: name.to_owned(), path: path.to_owned(), env: env.to_owned() }
    }

    fn dir() -> (tempfile::TempDir, SecretsDir) {
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        let settings = Settings { secrets_dir: root.path().to_owned(), ..Settings::default() };
        let dir = SecretsDir::open(&settings, root.path()).unwrap().unwrap();
        (root, dir)
    }

    #[test]
    fn files_and_variables_are_laid_out_and_never_shown() {
        let (_root, dir) = dir();
        let id = execution_id(1);
        let values = [
            SecretValue::new("db".to_owned(), 3, b"by\0tes"),
            SecretValue::new("key".to_owned(), 1, b"hidden"),
        ];
        let secrets = [wanted("db", "/run/secrets/db", ""), wanted("key", "", "API_KEY")];
        let out = lay_out(&dir, id, &secrets, &values).unwrap();
        assert_eq!(std::fs::read(out.on_node("/run/secrets/db")).unwrap(), b"by\0tes");
        assert_eq!(out.variables["API_KEY"].as_str(), "hidden");
        assert!(!format!("{out:?}").contains("hidden"));
        assert_eq!(received(&values), "received secrets 'db' (version 3), 'key' (version 1)");
    }

    #[test]
    fn what_cannot_be_a_variable_and_what_did_not_come_is_refused() {
        let (_root, dir) = dir();
        let values = [SecretValue::new("db".to_owned(), 1, b"by\0tes")];
        let refused = lay_out(&dir, execution_id(1), &[wanted("db", "", "DB")], &values);
        assert!(refused.unwrap_err().message.contains("is not text"));
        let refused = lay_out(&dir, execution_id(1), &[wanted("other", "/x", "")], &values);
        assert!(refused.unwrap_err().message.contains("did not send the secret 'other'"));
    }
}
