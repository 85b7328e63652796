//! Inputs that are results of other jobs: which jobs these are, and whether they can have results.

use std::collections::BTreeMap;

use api_types::JobId;
use api_types::dependency::Dependency;
use api_types::engine::PublisherType;
use api_types::error::FieldError;
use api_types::job::{JobSpec, JobType, Task};
use api_types::job_input::MAX_RESULTS;
use api_types::source::{InputSource, JobSourceParams, ResultIndex, SourceType};
use scheduler::slots::Slots;

use super::dependencies::Members;
use super::findings::Findings;
use super::task::of_task;

/// The fields of `Params` that name the job.
const JOB_ID: &str = "JobID";
const JOB: &str = "Job";

/// Finds the jobs, each of which has to be one on which the job depends.
pub(super) fn check(
    task: &mut Task,
    job_type: JobType,
    depends_on: &[Dependency],
    graph: Option<&dyn Members>,
    findings: &mut Findings,
) {
    // A list with a problem is not complete.
    let is_complete =
        !findings.problems.iter().any(|problem| problem.path.starts_with("DependsOn"));
    for (place, input) in task.input_sources.iter_mut().enumerate() {
        let Some(JobSourceParams { job_id, job, index, .. }) = input.job_results() else {
            continue;
        };
        if index == ResultIndex::Same && job_type != JobType::Batch {
            let reason =
                format!("must be a number or absent: the indexes of {job_type} jobs are nodes");
            findings.refuse(path(place, "Index"), reason);
        }
        let named = match (job_id.parse::<JobId>(), graph) {
            (Ok(id), _) => Some(id),
            (Err(_), Some(graph)) => graph.find(&job),
            (Err(_), None) => None,
        };
        let declared = named.and_then(|id| depends_on.iter().find(|other| other.job_id == id));
        match declared {
            Some(dependency) => name(input, dependency),
            // Nor is an ID that was refused already.
            None if !is_complete || findings.has(&path(place, JOB_ID)) => {}
            None => {
                let field = if job_id.is_empty() && graph.is_some() { JOB } else { JOB_ID };
                let reason = match (job_id.as_str(), job.as_str()) {
                    ("", "") => "is required: a job that DependsOn names".to_owned(),
                    ("", job) => format!("'{job}' is not in DependsOn; add the job there"),
                    (id, _) => format!("{id} is not in DependsOn; add the job there"),
                };
                findings.refuse(path(place, field), reason);
            }
        }
    }
}

/// Adds the names of the jobs, which may have been found only now.
pub(super) fn set_names(task: &mut Task, depends_on: &[Dependency]) {
    for input in &mut task.input_sources {
        let id = input.job_results().and_then(|params| params.job_id.parse::<JobId>().ok());
        let found = depends_on.iter().find(|other| Some(other.job_id) == id);
        if let Some(dependency) = found {
            name(input, dependency);
        }
    }
}

fn name(input: &mut InputSource, Dependency { job_id, job, .. }: &Dependency) {
    let params = &mut input.source.params;
    params.insert(JOB_ID.to_owned(), job_id.to_string().into());
    if job.is_empty() {
        params.remove(JOB);
    } else {
        params.insert(JOB.to_owned(), job.as_str().into());
    }
}

/// Reads the results of new jobs where it read those of the first ones.
pub(super) fn rename(task: &mut Task, named: &BTreeMap<JobId, (JobId, String)>) {
    for input in &mut task.input_sources {
        let id = input.job_results().and_then(|params| params.job_id.parse::<JobId>().ok());
        if let Some((new, _)) = id.and_then(|id| named.get(&id)) {
            input.source.params.insert(JOB_ID.to_owned(), new.to_string().into());
        }
    }
}

/// Why a job with these indexes would not find what it reads of another one, of whose indexes only
/// some run again: the results of the others stay with the first job.
pub(crate) fn check_again(
    (spec, own): (&JobSpec, &Slots),
    (id, name): (JobId, &str),
    (again, all): (&Slots, &Slots),
) -> Option<String> {
    let mut read = inputs(spec).filter(|(_, params)| params.job_id.parse() == Ok(id));
    let is_missing = read.any(|(_, params)| match params.index {
        ResultIndex::All => again.len() < all.len(),
        ResultIndex::One(index) => !again.contains(index),
        ResultIndex::Same => !again.includes(own),
    });
    is_missing.then(|| {
        format!(
            "job '{}' reads results of indexes of job '{name}' that would not run again: rerun all \
             of its indexes",
            spec.name
        )
    })
}

/// Whether an input of the job has results of this one.
pub(crate) fn reads(spec: &JobSpec, job: JobId) -> bool {
    inputs(spec).any(|(_, params)| params.job_id.parse() == Ok(job))
}

/// What keeps a job with these indexes from reading the results of another one.
pub(crate) fn check_published(
    (spec, own): (&JobSpec, &Slots),
    id: JobId,
    (other, slots): (&JobSpec, &Slots),
) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut refuse = |place, field, reason| {
        problems.push(FieldError { path: path(place, field), reason });
    };
    let name = &other.name;
    for (place, params) in inputs(spec).filter(|(_, params)| params.job_id.parse() == Ok(id)) {
        if !other.tasks.iter().any(publishes) {
            let reason = format!("job '{name}' publishes nothing: set the Publisher of its task");
            refuse(place, JOB_ID, reason);
            continue;
        }
        // Which nodes an ops job runs on is decided when it is placed.
        if other.job_type != JobType::Batch {
            if params.index == ResultIndex::Same {
                let reason = format!(
                    "must be a number or absent: the indexes of {} job '{name}' are nodes",
                    other.job_type
                );
                refuse(place, "Index", reason);
            }
            continue;
        }
        let has = || match slots.at_or_above(0) {
            Some(first) => format!("{}, from {first} to {}", slots.len(), slots.end() - 1),
            None => "none".to_owned(),
        };
        match params.index {
            ResultIndex::All if slots.len() > MAX_RESULTS => {
                let reason = format!(
                    "is required: job '{name}' has {} indexes, and an input has the results of \
                     {MAX_RESULTS} at most",
                    slots.len()
                );
                refuse(place, "Index", reason);
            }
            ResultIndex::One(index) if !slots.contains(index) => {
                let reason = format!("job '{name}' has no index {index}; it has {}", has());
                refuse(place, "Index", reason);
            }
            ResultIndex::Same if !slots.includes(own) => {
                let reason =
                    format!("job '{name}' does not have all indexes of this job; it has {}", has());
                refuse(place, "Index", reason);
            }
            ResultIndex::All | ResultIndex::One(_) | ResultIndex::Same => {}
        }
    }
    problems
}

fn inputs(spec: &JobSpec) -> impl Iterator<Item = (usize, JobSourceParams)> {
    let inputs = spec.tasks.iter().flat_map(|task| &task.input_sources).enumerate();
    inputs.filter_map(|(place, input)| Some((place, input.job_results()?)))
}

fn publishes(task: &Task) -> bool {
    match task.publisher.publisher_type {
        PublisherType::Local | PublisherType::S3 | PublisherType::Ipfs => true,
        PublisherType::None | PublisherType::Noop => false,
    }
}

fn path(place: usize, field: &str) -> String {
    let inputs = of_task!("InputSources");
    format!("{inputs}[{place}].Source.Params.{field}")
}

/// Whether the input is results of a job, before anything of it was checked.
pub(super) fn names_job(input: &serde_json::Value) -> Option<JobId> {
    let source = input.get("Source")?;
    let kind: SourceType = source.get("Type")?.as_str()?.parse().ok()?;
    if kind != SourceType::Job {
        return None;
    }
    source.get("Params")?.get(JOB_ID)?.as_str()?.parse().ok()
}
