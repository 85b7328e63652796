//! Several jobs that are submitted together and depend on each other.

use std::collections::{BTreeMap, BTreeSet};

use api_types::error::FieldError;
use api_types::graph::{CreateGraphRequest, MAX_EDGES, MAX_JOBS};
use api_types::{GraphId, JobId};
use scheduler::slots::Slots;

use super::dependencies::{self, Members};
use super::findings::Findings;
use super::job_inputs::check_published;
use super::{Accepted, Rejected, Requester, bounded, is_at_or_below, job};
use crate::json::{self, Author, MAX_PROBLEMS, Texts, Unreadable};

/// Bytes of the name of a job within its graph, which messages show.
const MAX_NAME_BYTES: usize = 128;

/// Jobs of a cycle that a refusal shows; a longer one is cut.
const SHOWN: usize = 20;

/// The name of a graph without one.
const USUAL_NAME: &str = "graph";

/// A valid graph.
#[derive(Debug)]
pub(crate) struct AcceptedGraph {
    pub id: GraphId,
    pub name: String,
    pub namespace: String,
    /// By their names within the graph.
    pub jobs: Vec<(String, Accepted)>,
    pub warnings: Vec<String>,
}

/// The IDs of the graph and of its jobs, by name.
struct Ids {
    graph: GraphId,
    jobs: BTreeMap<String, JobId>,
}

impl Members for Ids {
    fn id(&self) -> GraphId {
        self.graph
    }

    fn find(&self, name: &str) -> Option<JobId> {
        self.jobs.get(name).copied()
    }
}

/// Reads and checks the body of Create Graph. It compiles regular expressions, so it belongs on a
/// thread that may block.
pub(crate) fn accept_graph(
    body: &[u8],
    id: GraphId,
    mut mint: impl FnMut() -> JobId,
    requester: &Requester,
) -> Result<AcceptedGraph, Rejected> {
    let reading = json::read::<CreateGraphRequest>(body, Author::Person, Texts::WithoutNul)
        .map_err(|unreadable| match unreadable {
            Unreadable::Malformed(reason) => Rejected::Malformed(reason),
            Unreadable::Shape(problems) => Rejected::Invalid(problems),
        })?;
    let unread = reading.problems;
    let mut findings = Findings::default();
    for path in &reading.unknown {
        findings.warn(format!("{path} is not a known field and was ignored"));
    }
    let CreateGraphRequest { name, jobs } = reading.value;
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| USUAL_NAME.to_owned());
    findings.check_name("Name", &name);
    if jobs.is_empty() || jobs.len() > MAX_JOBS {
        findings.refuse("Jobs", format!("must be 1 to {MAX_JOBS} jobs, got {}", jobs.len()));
        return Err(rejected(unread, findings.problems));
    }
    let ids = Ids { graph: id, jobs: jobs.keys().map(|name| (name.clone(), mint())).collect() };
    let mut accepted = Vec::with_capacity(jobs.len());
    for (name, mut submitted) in jobs {
        check_member(&name, submitted.id.is_some(), &mut findings);
        submitted.name =
            submitted.name.filter(|own| !own.is_empty()).or_else(|| Some(name.clone()));
        let mut own = Findings::default();
        let checked = job::check(submitted, ids.jobs[&name], requester, Some(&ids), &mut own);
        own.compile_regexes();
        let is_sound = own.problems.is_empty();
        findings.adopt(&name, own);
        if is_sound && findings.problems.is_empty() {
            accepted.push((name, checked.accepted(Vec::new())?));
        }
    }
    if unread.is_empty() && findings.problems.is_empty() {
        check_whole(&accepted, &ids, &mut findings);
    }
    if !unread.is_empty() || !findings.problems.is_empty() {
        return Err(rejected(unread, findings.problems));
    }
    let namespace = accepted[0].1.spec.namespace.clone();
    let warnings = bounded(findings.warnings);
    Ok(AcceptedGraph { id, name, namespace, jobs: accepted, warnings })
}

fn check_member(name: &str, has_id: bool, findings: &mut Findings) {
    let path = format!("Jobs.{name}");
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.trim() == name
        && !name.chars().any(api_types::text::is_control);
    if !is_name {
        let reason = format!("is no name: one line of 1 to {MAX_NAME_BYTES} bytes");
        findings.refuse(&path, reason);
    }
    if has_id {
        findings
            .refuse(format!("{path}.ID"), "must be absent: the service gives jobs of a graph IDs");
    }
}

/// What no job by itself can break.
fn check_whole(jobs: &[(String, Accepted)], ids: &Ids, findings: &mut Findings) {
    let namespace = &jobs[0].1.spec.namespace;
    let mut by_id = BTreeMap::new();
    let mut edges = 0;
    for (name, Accepted { id, spec, .. }) in jobs {
        by_id.insert(*id, (name.as_str(), spec));
        edges += spec.depends_on.len();
        if spec.namespace != *namespace {
            let reason =
                format!("must be that of the other jobs, '{namespace}', got '{}'", spec.namespace);
            findings.refuse(format!("Jobs.{name}.Namespace"), reason);
        }
    }
    if edges > MAX_EDGES {
        findings.refuse("Jobs", format!("have {edges} dependencies, and may have {MAX_EDGES}"));
    }
    let mut named: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for (name, Accepted { id, spec, .. }) in jobs {
        for (index, dependency) in spec.depends_on.iter().enumerate() {
            let Some((other, found)) = by_id.get(&dependency.job_id) else { continue };
            let (own, slots) = (Slots::below(spec.count), Slots::below(found.count));
            let inputs = check_published((spec, &own), dependency.job_id, (found, &slots));
            findings.problems.extend(inputs.into_iter().map(|FieldError { path, reason }| {
                FieldError { path: format!("Jobs.{name}.{path}"), reason }
            }));
            named.entry(*id).or_default().push(dependency.job_id);
            if !found.job_type.is_finite() {
                let reason = format!(
                    "'{other}' is a {} job, which does not end by itself: a job can depend on batch \
                     and ops jobs",
                    found.job_type
                );
                findings.refuse(format!("Jobs.{name}.DependsOn[{index}]"), reason);
            } else if !dependency.indexes.is_all() {
                let [own, others] = [spec.count, found.count].map(Slots::below);
                let reason = dependencies::refuse_same(&own, other, found.job_type, &others);
                if let Some(reason) = reason {
                    findings.refuse(format!("Jobs.{name}.DependsOn[{index}].Indexes"), reason);
                }
            }
        }
    }
    if let Some(cycle) = cycle(ids.jobs.values().copied(), &named) {
        let names: Vec<_> = cycle.iter().map(|id| by_id[id].0).collect();
        let reason = match names.len() > SHOWN {
            false => format!("wait for each other: {} → {}", names.join(" → "), names[0]),
            true => {
                let shown = names[..SHOWN].join(" → ");
                format!("wait for each other: {shown} → … ({} jobs)", names.len())
            }
        };
        findings.refuse("Jobs", reason);
    }
}

/// Jobs each of which depends on the next, and the last on the first.
fn cycle(
    jobs: impl Iterator<Item = JobId>,
    named: &BTreeMap<JobId, Vec<JobId>>,
) -> Option<Vec<JobId>> {
    let mut done = BTreeSet::new();
    for start in jobs {
        // The path from the start, with the number of the next dependency of each job on it.
        let mut path: Vec<(JobId, usize)> = vec![(start, 0)];
        let mut on_path = BTreeSet::from([start]);
        while let Some((job, next)) = path.last_mut() {
            let Some(other) = named.get(job).and_then(|named| named.get(*next)).copied() else {
                on_path.remove(job);
                done.insert(*job);
                path.pop();
                continue;
            };
            *next += 1;
            if on_path.contains(&other) {
                let jobs = path.iter().map(|(job, _)| *job);
                return Some(jobs.skip_while(|job| *job != other).collect());
            }
            if !done.contains(&other) {
                on_path.insert(other);
                path.push((other, 0));
            }
        }
    }
    None
}

fn rejected(unread: Vec<FieldError>, problems: Vec<FieldError>) -> Rejected {
    let further = problems.into_iter().filter(|problem| {
        !unread.iter().any(|earlier| is_at_or_below(&problem.path, &earlier.path))
    });
    let mut problems = unread.clone();
    problems.extend(further);
    problems.truncate(MAX_PROBLEMS);
    Rejected::Invalid(problems)
}
