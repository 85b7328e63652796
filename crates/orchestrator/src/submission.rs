//! Turns a submitted job into a stored one: parsed, fully checked, every default filled in.
//!
//! `docs/api.md`, "Create Job", has the rules. Nothing here knows HTTP or the scheduler.

mod arguments;
pub(crate) mod dependencies;
mod findings;
pub(crate) mod graph;
mod groups;
mod job;
pub(crate) mod job_inputs;
mod params;
mod paths;
mod publisher_key;
mod regexes;
pub(crate) mod rerun;
mod resources;
mod secrets;
mod targets;
mod task;
mod text;

use std::sync::Arc;

use api_types::dependency::Dependency;
use api_types::error::FieldError;
use api_types::job::JobSpec;
use api_types::submission::CreateJobRequest;
use api_types::{JobId, Timestamp};
use control_plane::schedule::{SCHEDULE_META, SCHEDULED_TIME_ENV, SCHEDULED_TIME_META};
use uuid::Uuid;

use self::findings::Findings;
pub(crate) use self::regexes::Regexes;
use crate::admission::Admission;
use crate::json::{self, Author, MAX_PROBLEMS, Texts, Unreadable};

/// Meta keys with this prefix belong to the service.
const RESERVED_META: &str = "service.org/";

/// The Meta of every job: who accepted it.
const REQUESTER_ID: &str = "service.org/requester.id";
const REQUESTER_KEY: &str = "service.org/requester.publicKey";

/// The Meta of a job of a graph: the ID of the graph.
const GRAPH: &str = "service.org/graph";

/// Warnings in one response; a last one counts the rest.
const MAX_WARNINGS: usize = 100;

/// Characters of one warning: it echoes a key, which may be as long as a body.
const MAX_WARNING_CHARS: usize = 500;

/// The orchestrator that accepts jobs, as recorded in their Meta.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub id: String,
    /// Base64 of the Ed25519 public key.
    pub public_key: String,
}

/// A valid job.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub id: JobId,
    /// The ID came with the request, so it may already exist.
    pub id_given: bool,
    /// The job says its priority.
    pub priority_given: bool,
    pub spec: Arc<JobSpec>,
    pub spec_json: Arc<str>,
    pub warnings: Vec<String>,
}

/// Why a job is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The body is not JSON.
    Malformed(String),
    /// Everything that is wrong with the job.
    Invalid(Vec<FieldError>),
    /// Not checked to the end: it has regular expressions, which this thread may not compile.
    HasRegexes,
}

/// The ID of a new job.
pub(crate) fn mint() -> JobId {
    #[expect(clippy::disallowed_methods, reason = "job ids are minted here and nowhere else")]
    let uuid = Uuid::new_v4();
    JobId::from_uuid(uuid)
}

/// Reads and checks the body of Create Job.
pub(crate) fn accept(
    body: &[u8],
    minted: JobId,
    requester: &Requester,
    regexes: Regexes,
) -> Result<Accepted, Rejected> {
    let reading = json::read::<CreateJobRequest>(body, Author::Person, Texts::WithoutNul).map_err(
        |unreadable| match unreadable {
            Unreadable::Malformed(reason) => Rejected::Malformed(reason),
            Unreadable::Shape(problems) => Rejected::Invalid(problems),
        },
    )?;
    let unread: Vec<FieldError> = reading
        .problems
        .into_iter()
        .map(|FieldError { path, reason }| FieldError { path: inside_job(&path), reason })
        .collect();

    let mut findings = Findings::default();
    for path in &reading.unknown {
        findings.warn(format!("{} is not a known field and was ignored", inside_job(path)));
    }
    let checked = match reading.value.job {
        Some(job) => Some(job::check(job, minted, requester, None, &mut findings)),
        None => {
            findings.refuse("Job", "is required: the body is {\"Job\": {…}}");
            None
        }
    };

    match regexes {
        Regexes::Leave if !findings.regexes.is_empty() => return Err(Rejected::HasRegexes),
        Regexes::Leave | Regexes::Compile => findings.compile_regexes(),
    }
    let Findings { problems, warnings, .. } = findings;
    // An empty value replaces an unreadable one; further findings about it add nothing.
    let further = problems.into_iter().filter(|problem| {
        !unread.iter().any(|earlier| is_at_or_below(&problem.path, &earlier.path))
    });
    let mut problems = unread.clone();
    problems.extend(further);
    problems.truncate(MAX_PROBLEMS);
    match (checked, problems.is_empty()) {
        (Some(checked), true) => checked.accepted(bounded(warnings)),
        (None, true) => Err(Rejected::Invalid(Vec::new())),
        (_, false) => Err(Rejected::Invalid(problems)),
    }
}

/// Reports paths relative to the job.
fn inside_job(path: &str) -> String {
    path.strip_prefix("Job.").unwrap_or(path).to_owned()
}

fn is_at_or_below(path: &str, place: &str) -> bool {
    if place.is_empty() || place == "Job" {
        return true;
    }
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

pub(crate) fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{more} more warnings omitted"));
    }
    warnings.into_iter().map(|warning| json::shorten(warning, MAX_WARNING_CHARS)).collect()
}

// === impl Accepted ===

impl Accepted {
    /// Adds the names of the jobs that it depends on.
    pub(crate) fn set_dependencies(&mut self, dependencies: Vec<Dependency>) {
        let spec = Arc::make_mut(&mut self.spec);
        for task in &mut spec.tasks {
            job_inputs::set_names(task, &dependencies);
        }
        spec.depends_on = dependencies;
        self.spec_json = job::stored_form(spec);
    }

    /// As its namespace allows it. A long specification takes long to write again.
    pub(crate) fn admitted(mut self, admission: Admission) -> Self {
        let Admission { mut constraints, priority, warnings } = admission;
        self.warnings.extend(warnings);
        constraints.retain(|constraint| !self.spec.constraints.contains(constraint));
        if constraints.is_empty() && priority == self.spec.priority {
            return self;
        }
        let mut spec = Arc::unwrap_or_clone(self.spec);
        spec.priority = priority;
        spec.constraints.append(&mut constraints);
        let spec_json = job::stored_form(&spec);
        Self { spec: Arc::new(spec), spec_json, ..self }
    }

    /// As the run of a schedule, with what the job and its tasks are told of it.
    pub(crate) fn scheduled(self, schedule: &str, due: Timestamp) -> Self {
        let (mut spec, due) = (Arc::unwrap_or_clone(self.spec), due.rfc3339_seconds());
        spec.meta.insert(SCHEDULE_META.to_owned(), schedule.to_owned());
        spec.meta.insert(SCHEDULED_TIME_META.to_owned(), due.clone());
        for task in &mut spec.tasks {
            task.env.insert(SCHEDULED_TIME_ENV.to_owned(), due.clone());
        }
        let spec_json = job::stored_form(&spec);
        Self { spec: Arc::new(spec), spec_json, ..self }
    }
}

#[cfg(test)]
mod tests;
