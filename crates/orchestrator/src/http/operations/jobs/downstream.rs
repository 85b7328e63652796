//! Rerun Job with `Downstream`: a graph of the job and of everything that did not run because of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api_types::JobId;
use api_types::dependency::Dependency;
use api_types::graph::{MAX_EDGES, MAX_JOBS};
use api_types::job::{JobStateType, JobType};
use api_types::rerun::DownstreamJob;
use control_plane::step::{GraphSubmission, IdempotencyKey};
use control_plane::store::{Reads, StoredJob, StoredOutcomes};
use scheduler::Scheduler;
use scheduler::downstream::{Selection, Stored, select};
use scheduler::input::{Submit, SubmitGraph};
use scheduler::outcomes::{Outcomes, Past, SlotOutcome};
use scheduler::rerun::Rerun;
use scheduler::slots::Slots;
use serde::Deserialize;
use tokio::time::Instant;

use super::create;
use super::rerun::{MAX_PATCHED_BYTES, Original, patched, problem};
use crate::admission;
use crate::http::api::{Api, Handled};
use crate::http::edge::authenticate::Access;
use crate::http::edge::body::JobBody;
use crate::http::error::{BadRequest, Conflict, Failure};
use crate::http::lookup;
use crate::http::operations::graphs;
use crate::http::operations::slots::MAX_LIST_BYTES;
use crate::http::operations::survey;
use crate::http::respond::{blocking, json};
use crate::submission::graph::AcceptedGraph;
use crate::submission::{Accepted, bounded, job_inputs, mint};

/// The most jobs that may depend on those that run again, together: the state of each is read, and a
/// tenant can make a thousand jobs that all have the same dependants.
const MAX_DEPENDANTS: u32 = 10_000;

/// What became of a job reaches those that depend on it with the next turns and a commit, and who
/// waited for its end may ask before. That takes milliseconds; of a million slots, some seconds.
const DECIDED_WITHIN: Duration = Duration::from_secs(10);

/// How long a commit takes, or a few turns.
const DECIDED_SOON: Duration = Duration::from_millis(20);

/// The jobs that run again, the one that was asked for first.
pub(super) struct Run {
    graph: AcceptedGraph,
    reruns: Vec<Option<Arc<Rerun>>>,
    downstream: Vec<DownstreamJob>,
}

/// What is stored of a job and of those that may not have run because of it.
struct Family {
    root: JobId,
    /// With the jobs on which they depend.
    jobs: BTreeMap<JobId, Stored>,
    /// Those that may run again, other than the first.
    members: BTreeMap<JobId, Member>,
    /// Jobs that depend on one of these and have not ended, as far as the store knows.
    live: BTreeMap<JobId, JobStateType>,
}

struct Member {
    job: StoredJob,
    running: u32,
}

/// Of a specification, on what the job depends.
#[derive(Deserialize)]
struct OnlyDependencies {
    #[serde(rename = "DependsOn", default)]
    depends_on: Vec<Dependency>,
}

// === The responses ===

/// Stores all of the jobs, or none.
pub(super) async fn submit(
    api: &Arc<Api>,
    access: &Access,
    run: Run,
    key: Option<IdempotencyKey>,
) -> Handled {
    let (admitting, Run { graph, reruns, .. }) = (Arc::clone(api), run);
    let graph = blocking(move || graphs::admitted(&admitting, graph)).await??;
    let AcceptedGraph { id, name, namespace, jobs, warnings } = graph;
    let jobs = jobs.into_iter().zip(reruns).map(|((name, accepted), rerun)| {
        let Accepted { id, spec, spec_json, .. } = accepted;
        (name, Submit { rerun, ..Submit::new(id, spec, spec_json) })
    });
    let submit = SubmitGraph { id, name, namespace, jobs: jobs.collect() };
    let submission = GraphSubmission { submit, warnings, key };
    let answer = api.handle.on_behalf(access.audit()).submit_graph(submission).await?;
    lookup::note("graph", answer.graph_id);
    json(&answer)
}

/// What would happen to the first of the jobs, and which others would run.
pub(super) async fn preview(api: &Api, run: Run) -> Handled {
    let Run { graph, reruns, downstream } = run;
    let AcceptedGraph { jobs, warnings, .. } = graph;
    let (Some((_, mut first)), Some(rerun)) = (jobs.into_iter().next(), reruns.into_iter().next())
    else {
        return Err(Failure::Internal { cause: "a rerun without a job".to_owned() });
    };
    first.warnings.extend(warnings);
    let admission =
        admission::admit(&api.view, &first.spec, first.priority_given).map_err(BadRequest::Job)?;
    let first = blocking(move || first.admitted(admission)).await?;
    create::preview(api, first, rerun, downstream).await
}

// === What runs again ===

/// Finds what did not run because of the job, of which these indexes run again.
pub(super) async fn family(
    api: &Arc<Api>,
    original: Original,
    accepted: Accepted,
    rerun: Rerun,
    body: &mut JobBody,
) -> Result<Run, Failure> {
    let family = decided_family(api, original, &rerun.slots).await?;
    let specs = family.members.values().map(|member| member.job.spec_json.len());
    body.expand(specs.sum::<usize>() + accepted.spec_json.len(), api).await?;
    let with = Arc::clone(api);
    blocking(move || assemble(&with, &family, accepted, rerun)).await?
}

/// Reads again while it is not decided of a job that depends on these whether it goes on.
async fn decided_family(
    api: &Arc<Api>,
    original: Original,
    again: &Slots,
) -> Result<Family, Failure> {
    let (original, again) = (Arc::new(original), Arc::new(again.clone()));
    let deadline = Instant::now() + DECIDED_WITHIN;
    loop {
        let of = Arc::clone(&original);
        let family = api.read(move |reads| read_family(reads, &of)).await?;
        if family.live.is_empty() {
            return Ok(family);
        }
        let live: Vec<JobId> = family.live.keys().copied().collect();
        let first_open =
            move |scheduler: &Scheduler| live.into_iter().find(|id| !scheduler.goes_on(*id));
        let open = survey::ask(api, first_open).await?.0;
        let Some(job) = open else {
            return api.read(move |reads| family.without_split(reads, &original, &again)).await;
        };
        if Instant::now() >= deadline {
            let state = family.live.get(&job).copied().unwrap_or(JobStateType::Pending);
            return Err(Conflict::JobNotFinished { job, state, running: 0 }.into());
        }
        tokio::time::sleep(DECIDED_SOON).await;
    }
}

fn read_family(reads: &dyn Reads, original: &Original) -> Result<Family, Failure> {
    let Original { job, outcomes, .. } = original;
    let past = past_of(outcomes);
    let root = job.id;
    // What the first job waited for is decided.
    let (depends_on, state, message) = (Vec::new(), job.state, job.message.clone());
    let mut jobs = BTreeMap::from([(root, Stored { depends_on, state, message, past })]);
    let (mut members, mut live) = (BTreeMap::new(), BTreeMap::new());
    let (mut bytes, mut left, mut next) = (0, MAX_DEPENDANTS, VecDeque::from([root]));
    while let Some(named) = next.pop_front() {
        let dependants = reads.dependants(named, left + 1)?;
        let count = u32::try_from(dependants.len()).unwrap_or(u32::MAX);
        left = left.checked_sub(count).ok_or_else(|| {
            let reason = format!(
                "more than {MAX_DEPENDANTS} jobs depend on the job and on those that did not run \
                 because of it"
            );
            problem("Downstream", reason)
        })?;
        for id in dependants {
            if jobs.contains_key(&id) {
                continue;
            }
            match reads.summary(id)?.map(|found| found.state) {
                Some(JobStateType::Failed | JobStateType::Stopped) => {}
                Some(JobStateType::Completed) | None => continue,
                Some(state) => {
                    live.insert(id, state);
                    continue;
                }
            }
            let (Some(job), Some(outcomes)) = (reads.job(id)?, reads.outcomes(id)?) else {
                continue;
            };
            bytes += job.spec_json.len();
            if members.len() + 1 >= MAX_JOBS || bytes > MAX_PATCHED_BYTES {
                let reason = format!(
                    "more may depend on the job than a graph has: {MAX_JOBS} jobs, or {} MB of \
                     specifications",
                    MAX_PATCHED_BYTES / 1_000_000
                );
                return Err(problem("Downstream", reason));
            }
            let depends_on = dependencies_of(&job)?;
            let past = past_of(&outcomes);
            let (state, message) = (job.state, job.message.clone());
            jobs.insert(id, Stored { depends_on, state, message, past });
            members.insert(id, Member { job, running: outcomes.running });
            next.push_back(id);
        }
    }
    read_others(reads, &mut jobs)?;
    Ok(Family { root, jobs, members, live })
}

fn dependencies_of(job: &StoredJob) -> Result<Vec<Dependency>, Conflict> {
    let read = serde_json::from_str::<OnlyDependencies>(&job.spec_json);
    Ok(read.map_err(|_| Conflict::NoSpecification(job.id))?.depends_on)
}

fn past_of(outcomes: &StoredOutcomes) -> Past {
    Past { slots: outcomes.slots.clone(), outcomes: outcomes.outcomes.clone() }
}

/// Adds the other jobs on which these depend, as far as they are stored.
fn read_others(reads: &dyn Reads, jobs: &mut BTreeMap<JobId, Stored>) -> Result<(), Failure> {
    let named: Vec<Dependency> =
        jobs.values().flat_map(|job| job.depends_on.iter().cloned()).collect();
    for on in named {
        let id = on.job_id;
        if jobs.contains_key(&id) && on.indexes.is_all() {
            continue;
        }
        let Some(found) = reads.summary(id)? else { continue };
        let (depends_on, message) = (Vec::new(), String::new());
        let mut past = Past { slots: Slots::default(), outcomes: Outcomes::default() };
        if !on.indexes.is_all() {
            if jobs.get(&id).is_some_and(|known| !known.past.slots.is_empty()) {
                continue;
            }
            let Some(outcomes) = reads.outcomes(id)? else { continue };
            past = past_of(&outcomes);
        }
        jobs.insert(id, Stored { depends_on, state: found.state, message, past });
    }
    Ok(())
}

/// The jobs of the graph, which depend on each other as the first ones did.
fn assemble(api: &Api, family: &Family, accepted: Accepted, rerun: Rerun) -> Result<Run, Failure> {
    let order = family.order();
    let Selection { again, left_out } =
        select(family.root, rerun.slots.clone(), &order, &family.jobs);
    let mut warnings = Vec::new();
    for (id, why) in left_out {
        let name = family.members.get(&id).map_or("", |member| &member.job.name);
        warnings.push(format!("job '{name}' is left out: {why}"));
    }
    let graph = create::mint_graph();
    let (namespace, name) = (accepted.spec.namespace.clone(), accepted.spec.name.clone());
    let mut named = BTreeMap::from([(family.root, (accepted.id, name.clone()))]);
    let mut taken = BTreeSet::from([name.clone()]);
    let (mut jobs, mut reruns) = (Vec::new(), vec![Some(Arc::new(rerun))]);
    // It waits again only for jobs whose results it reads.
    let read = accepted.spec.depends_on.clone();
    jobs.push((name.clone(), accepted.within(graph, read, &BTreeMap::new())));
    let (mut downstream, mut edges) = (Vec::new(), 0);
    for id in order {
        let (Some(slots), Some(member)) = (again.get(&id), family.members.get(&id)) else {
            continue;
        };
        let (job, new, name) = (&member.job, mint(), unique(&member.job.name, &mut taken));
        if member.running > 0 {
            // The same index must not run twice at the same time.
            let (state, running) = (job.state, member.running);
            return Err(Conflict::JobNotFinished { job: id, state, running }.into());
        }
        let stored = &family.jobs[&id];
        let depends_on: Vec<_> = stored.depends_on.iter().map(|on| renamed(on, &named)).collect();
        edges += depends_on.len();
        let counts = (slots.len(), stored.past.slots.len());
        let accepted = patched(api, job, None, counts, new)?;
        let accepted = accepted.within(graph, depends_on, &named);
        for (first, (new, name)) in &named {
            let all = (&again[first], &family.jobs[first].past.slots);
            let own = (&*accepted.spec, slots);
            if let Some(reason) = job_inputs::check_again(own, (*new, name), all) {
                return Err(problem("Downstream", reason));
            }
        }
        jobs.push((name.clone(), accepted));
        let has_slots = job.job_type == JobType::Batch;
        reruns.push(has_slots.then(|| Arc::new(Rerun::new(slots.clone(), BTreeMap::new()))));
        let indexes = slots.shortened(MAX_LIST_BYTES);
        downstream.push(DownstreamJob { job_id: id, name: name.clone(), indexes });
        named.insert(id, (new, name));
    }
    if edges > MAX_EDGES {
        let reason = format!("the jobs have {edges} dependencies, and may have {MAX_EDGES}");
        return Err(problem("Downstream", reason));
    }
    let graph = AcceptedGraph { id: graph, name, namespace, jobs, warnings: bounded(warnings) };
    Ok(Run { graph, reruns, downstream })
}

/// The same condition, on the new job if the other one runs again.
fn renamed(on: &Dependency, named: &BTreeMap<JobId, (JobId, String)>) -> Dependency {
    match named.get(&on.job_id) {
        Some((job_id, name)) => Dependency { job_id: *job_id, job: name.clone(), ..on.clone() },
        None => on.clone(),
    }
}

/// A name within the graph that no other job of it has.
fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut names = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut found = name.to_owned();
    while !taken.insert(found.clone()) {
        found = names.next().unwrap_or_default();
    }
    found
}

// === impl Family ===

impl Family {
    /// The same, unless a job that goes on has slots that did not run because of some that run
    /// again: they cannot run before all of their job has ended.
    fn without_split(
        self,
        reads: &dyn Reads,
        original: &Original,
        again: &Slots,
    ) -> Result<Self, Failure> {
        let ended = &original.outcomes.outcomes;
        let split: Slots =
            again.iter().filter(|index| ended.get(*index) != SlotOutcome::Completed).collect();
        for (id, state) in &self.live {
            let (job, state) = (*id, *state);
            let outcomes = reads.outcomes(job)?.filter(|outcomes| outcomes.failed > 0);
            let Some(past) = outcomes.as_ref().map(past_of) else { continue };
            if !split.iter().any(|index| past.get(index) == SlotOutcome::Failed) {
                continue;
            }
            let Some(stored) = reads.job(job)? else { continue };
            let mut depends_on = dependencies_of(&stored)?.into_iter();
            if depends_on.any(|on| !on.indexes.is_all() && self.jobs.contains_key(&on.job_id)) {
                return Err(Conflict::JobNotFinished { job, state, running: 0 }.into());
            }
        }
        Ok(self)
    }

    /// The jobs other than the first, each after those of them on which it depends.
    fn order(&self) -> Vec<JobId> {
        let mut order: Vec<JobId> = Vec::with_capacity(self.members.len());
        let mut done = BTreeSet::new();
        for start in self.members.keys() {
            let mut path = vec![(*start, 0)];
            while let Some((id, next)) = path.last_mut() {
                let depends_on = &self.jobs[id].depends_on;
                match depends_on.get(*next).filter(|_| !done.contains(id)) {
                    Some(on) => {
                        *next += 1;
                        if self.members.contains_key(&on.job_id) && !done.contains(&on.job_id) {
                            path.push((on.job_id, 0));
                        }
                    }
                    None => {
                        if done.insert(*id) {
                            order.push(*id);
                        }
                        path.pop();
                    }
                }
            }
        }
        order
    }
}
