//! The request of a rerun, and the job that it makes of an earlier one.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::dependency::Dependency;
use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::{JobType, generated_stem};
use api_types::rerun::{EXECUTION_COUNT, Only, RERUN_OF, RerunJobRequest};
use api_types::{GraphId, JobId};
use control_plane::store::StoredJob;
use scheduler::slots::Slots;
use serde_json::{Map, Value, json};

use super::{Accepted, GRAPH, RESERVED_META, Rejected, job, job_inputs};
use crate::json::{self, Author, Texts, Unreadable};

/// The longest list of indexes, in bytes: about a hundred thousand of them. Longer sets are named by
/// their outcome, or by ranges.
const MAX_INDEXES_BYTES: usize = 1 << 20;

/// What a rerun leaves as it was.
const FIXED: [(&str, &str); 5] = [
    ("Type", "cannot be changed: a rerun has the type of the first job"),
    ("Namespace", "cannot be changed: a rerun stays in the namespace of the first job"),
    ("Count", "cannot be changed: it is the number of indexes that run; name these with Indexes"),
    ("ID", "is assigned by the service"),
    ("DependsOn", "cannot be given: a rerun depends only on jobs whose results it reads"),
];

/// Objects whose keys belong to users or to an engine, so that their case matters.
const OWN_KEYS: [&str; 4] = ["Meta", "Labels", "Env", "Params"];

/// What runs again, and how.
pub(crate) struct Choice {
    pub(crate) only: Only,
    pub(crate) indexes: Option<Slots>,
    pub(crate) patch: Option<Value>,
    /// Also what did not run because of the job.
    pub(crate) downstream: bool,
}

/// A job that has ended, with changes.
pub(crate) struct Patched<'a> {
    pub(crate) job: &'a StoredJob,
    pub(crate) patch: Option<Value>,
    /// How many of its indexes run.
    pub(crate) count: u32,
}

/// Reads the body of Rerun Job.
pub(crate) fn read(body: &[u8]) -> Result<Choice, Rejected> {
    let reading = json::read::<RerunJobRequest>(body, Author::Person, Texts::WithoutNul);
    let reading = reading.map_err(|unreadable| match unreadable {
        Unreadable::Malformed(reason) => Rejected::Malformed(reason),
        Unreadable::Shape(problems) => Rejected::Invalid(problems),
    })?;
    let mut problems = reading.problems;
    // What is meant to narrow a rerun must not be overlooked.
    let unknown = reading.unknown.into_iter().filter(|path| !path.starts_with("Patch."));
    problems.extend(unknown.map(|path| error(&path, "is not a known field")));
    let RerunJobRequest { only, indexes, patch, downstream } = reading.value;
    let downstream = downstream.unwrap_or(false);
    let only: Result<Only, UnknownWord> =
        only.filter(|word| !word.is_empty()).map_or(Ok(Only::All), |word| word.parse());
    let only = only.map_err(|unknown| problems.push(error("Only", unknown.to_string()))).ok();
    let indexes = match indexes {
        Some(text) if text.len() > MAX_INDEXES_BYTES => {
            let reason = format!("must not be longer than {MAX_INDEXES_BYTES} bytes");
            problems.push(error("Indexes", reason));
            None
        }
        Some(text) => match text.parse::<Slots>() {
            Ok(indexes) => Some(indexes),
            Err(invalid) => {
                problems.push(error("Indexes", json::shorten(invalid.to_string(), 200)));
                None
            }
        },
        None => None,
    };
    match (only, problems.is_empty()) {
        (Some(only), true) => Ok(Choice { only, indexes, patch, downstream }),
        _ => Err(Rejected::Invalid(problems)),
    }
}

fn error(path: &str, reason: impl Into<String>) -> FieldError {
    FieldError { path: path.to_owned(), reason: reason.into() }
}

/// Merges as RFC 7396 says. The API ignores the case of its own keys, so a patch may as well.
fn merge(target: &mut Value, patch: Value, has_own_keys: bool) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (key, value) in patch {
        let same = |known: &&String| !has_own_keys && known.eq_ignore_ascii_case(&key);
        let key = fields.keys().find(same).cloned().unwrap_or(key);
        if value.is_null() {
            fields.remove(&key);
        } else {
            let own = has_own_keys || OWN_KEYS.iter().any(|own| own.eq_ignore_ascii_case(&key));
            merge(fields.entry(key).or_insert(Value::Null), value, own);
        }
    }
}

/// The value of a field, whose case is ignored.
fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let key = fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned()?;
    fields.remove(&key)
}

// === impl Patched ===

impl Patched<'_> {
    /// The job as a submission, whether the patch gives a priority, and the count that its
    /// executions are told, which `told` takes from the Meta of the first job. Without problems if
    /// the stored specification cannot be read.
    pub(crate) fn json(
        self,
        told: impl FnOnce(&BTreeMap<String, String>) -> u32,
    ) -> Result<(Vec<u8>, bool, u32), Option<Vec<FieldError>>> {
        let mut job: Value = serde_json::from_str(&self.job.spec_json).map_err(|_| None)?;
        let Some(fields) = job.as_object_mut().filter(|fields| fields.contains_key("Tasks")) else {
            return Err(None);
        };
        let meta = fields.get("Meta").cloned().unwrap_or_default();
        let told_count = told(&serde_json::from_value(meta).unwrap_or_default());
        if let Some(Value::Object(meta)) = fields.get_mut("Meta") {
            meta.retain(|key, _| !key.starts_with(RESERVED_META));
        }
        // The name that the service made for the first job belongs to that.
        if generated_stem(&self.job.name, self.job.id).is_some() {
            fields.remove("Name");
        }
        let depends_on = fields.remove("DependsOn");
        if matches!(self.job.job_type, JobType::Batch | JobType::Service) {
            fields.insert("Count".to_owned(), json!(self.count));
        }
        let priority_given = match self.patch {
            None | Some(Value::Null) => false,
            Some(Value::Object(patch)) => apply(&mut job, patch).map_err(Some)?,
            Some(_) => return Err(Some(vec![error("Patch", "must be an object")])),
        };
        keep_dependencies(&mut job, depends_on);
        let json = serde_json::to_vec(&json!({ "Job": job })).map_err(|_| None)?;
        Ok((json, priority_given, told_count))
    }
}

/// What the first job waited for is decided; but the jobs whose results are read stay, and what they
/// published with them.
fn keep_dependencies(job: &mut Value, depends_on: Option<Value>) {
    let inputs = job["Tasks"][0]["InputSources"].as_array();
    let read: Vec<JobId> = inputs.into_iter().flatten().filter_map(job_inputs::names_job).collect();
    let Some(Value::Array(mut list)) = depends_on else { return };
    let id = |dependency: &Value| dependency["JobID"].as_str()?.parse().ok();
    list.retain(|dependency| id(dependency).is_some_and(|id| read.contains(&id)));
    if !list.is_empty() {
        job["DependsOn"] = list.into();
    }
}

/// Changes the job. Returns whether the patch gives a priority.
fn apply(job: &mut Value, mut patch: Map<String, Value>) -> Result<bool, Vec<FieldError>> {
    let fixed = FIXED.iter().filter(|(name, _)| take(&mut patch, name).is_some());
    let mut problems: Vec<_> =
        fixed.map(|(name, reason)| error(&format!("Patch.{name}"), *reason)).collect();
    let task = match take(&mut patch, "Tasks") {
        None => None,
        Some(Value::Array(tasks)) if tasks.len() == 1 => tasks.into_iter().next(),
        Some(_) => {
            let reason = "must be a list with one entry, which changes the job's only task";
            problems.push(error("Patch.Tasks", reason));
            None
        }
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let priority_given = patch.keys().any(|key| key.eq_ignore_ascii_case("Priority"));
    merge(job, Value::Object(patch), false);
    if let Some(task) = task {
        merge(&mut job["Tasks"][0], task, false);
    }
    Ok(priority_given)
}

// === impl Accepted ===

impl Accepted {
    /// As a rerun of this job, whose executions are told that there are `told_count`.
    pub(crate) fn into_rerun(self, of: JobId, told_count: u32, priority_given: bool) -> Self {
        let mut spec = Arc::unwrap_or_clone(self.spec);
        spec.meta.insert(RERUN_OF.to_owned(), of.to_string());
        spec.meta.insert(EXECUTION_COUNT.to_owned(), told_count.to_string());
        let spec_json = job::stored_form(&spec);
        Self { spec: spec.into(), spec_json, priority_given, ..self }
    }

    /// As a job of this graph, which depends on these, where new jobs replace the first ones.
    pub(crate) fn within(
        mut self,
        graph: GraphId,
        dependencies: Vec<Dependency>,
        named: &BTreeMap<JobId, (JobId, String)>,
    ) -> Self {
        let spec = Arc::make_mut(&mut self.spec);
        spec.meta.insert(GRAPH.to_owned(), graph.to_string());
        spec.tasks.iter_mut().for_each(|task| job_inputs::rename(task, named));
        self.set_dependencies(dependencies);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(job: Value, patch: Value) -> Value {
        let mut job = job;
        let Value::Object(patch) = patch else { panic!("not an object") };
        apply(&mut job, patch).unwrap();
        job
    }

    #[test]
    fn a_patch_merges_objects_and_the_only_task_and_removes_what_is_null() {
        let job = json!({
            "Name": "a", "Labels": { "x": "1", "y": "2" },
            "Tasks": [{ "Engine": { "Type": "docker", "Params": { "Image": "i", "Parameters": ["a"] } } }],
        });
        let patch = json!({
            "priority": 7, "labels": { "x": null, "X": "3" },
            "tasks": [{ "engine": { "params": { "Parameters": ["b", "c"] } } }],
        });
        let expected = json!({
            "Name": "a", "priority": 7, "Labels": { "y": "2", "X": "3" },
            "Tasks": [
                { "Engine": { "Type": "docker", "Params": { "Image": "i", "Parameters": ["b", "c"] } } },
            ],
        });
        assert_eq!(patched(job, patch), expected);
    }

    #[test]
    fn a_patch_cannot_change_what_a_rerun_is() {
        let patch = json!({ "type": "ops", "Namespace": "n", "COUNT": 3, "ID": "j", "Tasks": [] });
        let Value::Object(patch) = patch else { panic!("not an object") };
        let problems = apply(&mut json!({ "Tasks": [{}] }), patch).unwrap_err();
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let expected = ["Patch.Type", "Patch.Namespace", "Patch.Count", "Patch.ID", "Patch.Tasks"];
        assert_eq!(paths, expected);
    }
}
