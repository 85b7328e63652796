//! Where this process stands: what it knows of the leader, and whether it is ready to replace it.
//!
//! Readiness of a follower says two things to an operator and a load balancer: connections to this
//! port are served, and the service goes on if the leader is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use control_plane::clock::boot_nanos;
use control_plane::store::{Exposure, Leader, Sighting, StoreError};
use telemetry::metrics::Exposition;
use tokio::sync::watch;

use crate::http::Api;
use crate::members::Stands;
use crate::metrics::standing::StandingMetrics;

/// How long a follower is ready without reaching a leader: longer than a takeover takes.
const READY_WITHOUT_LEADER: Duration = Duration::from_secs(10);

/// What a follower knows of the process that leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) role: Role,
    /// The last one that was seen; none if the lead was resigned.
    pub(super) leader: Option<Arc<Leader>>,
    /// Whether the leader accepted the last connection.
    pub(super) is_reachable: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Following,
    /// The store was won, and is loaded.
    Won,
    /// From now on, the API says how this process is.
    Leading,
}

/// Shared by what polls, what passes connections on, and what reports on this process.
pub(crate) struct Standing {
    exposure: Exposure,
    started: u64,
    lead: watch::Sender<Lead>,
    known: Mutex<Known>,
    metrics: Arc<StandingMetrics>,
}

#[derive(Default)]
struct Known {
    /// The address that the other orchestrators dial.
    own_address: String,
    /// When a poll was last answered, and why the one after it failed. Times are by CLOCK_BOOTTIME,
    /// in nanoseconds.
    polled: Option<u64>,
    poll_failure: Option<String>,
    reached: Option<u64>,
    key_problem: Option<String>,
    format_problem: Option<String>,
    /// Of the process that leads: this one.
    api: Weak<Api>,
}

/// Where the connections of clients go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// They wait for a leader.
    Wait,
    To(Arc<Leader>),
    /// The leader is exposed in another way, so nothing may be passed on to it.
    Nowhere,
    /// This process serves them as soon as it has loaded the store.
    Here,
}

// === impl Standing ===

impl Standing {
    pub(super) fn new(exposure: Exposure) -> Arc<Self> {
        Arc::new(Self {
            exposure,
            started: boot_nanos(),
            lead: watch::Sender::default(),
            known: Mutex::default(),
            metrics: Arc::default(),
        })
    }

    /// The address that the other orchestrators dial.
    pub(super) fn advertise(&self, address: &str) {
        address.clone_into(&mut self.known().own_address);
    }

    pub(super) fn metrics(&self) -> &Arc<StandingMetrics> {
        &self.metrics
    }

    /// Wakes when another process leads, when it begins or ceases to accept connections, and when this
    /// one has won.
    pub(super) fn lead(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// `format` is that which this release writes.
    pub(super) fn polled(&self, polled: &Result<Sighting, StoreError>, format: u32) {
        let seen = match polled {
            Ok(seen) => seen,
            Err(error) => {
                self.known().poll_failure = Some(error.to_string());
                return;
            }
        };
        {
            let mut known = self.known();
            (known.polled, known.poll_failure) = (Some(boot_nanos()), None);
        }
        self.format_problem((seen.oldest > format).then(|| {
            format!(
                "it never leads, because the state has format {}, and this release knows formats up \
                 to {format}; install the release of the leader",
                seen.format
            )
        }));
        self.lead.send_if_modified(|lead| {
            if lead.leader.as_deref() == seen.leader.as_ref() {
                return false;
            }
            (lead.leader, lead.is_reachable) = (seen.leader.clone().map(Arc::new), false);
            true
        });
    }

    /// The outcome of a connection to this leader.
    pub(super) fn dialed(&self, leader: &Leader, accepted: bool) {
        if accepted {
            self.known().reached = Some(boot_nanos());
        }
        self.lead.send_if_modified(|lead| {
            let is_news = lead.leader.as_deref() == Some(leader) && lead.is_reachable != accepted;
            if is_news {
                lead.is_reachable = accepted;
            }
            is_news
        });
    }

    /// This process has taken the lead over.
    pub(super) fn won(&self) {
        self.lead.send_modify(|lead| *lead = Lead { role: Role::Won, ..Lead::default() });
    }

    /// This process serves the API.
    pub(super) fn leads(&self, api: &Arc<Api>) {
        self.known().api = Arc::downgrade(api);
        self.lead.send_modify(|lead| lead.role = Role::Leading);
    }

    /// Why this release may not lead with the format of the data; none once it may.
    pub(super) fn format_problem(&self, problem: Option<String>) {
        self.known().format_problem = problem;
    }

    pub(super) fn api(&self) -> Option<Arc<Api>> {
        self.known().api.upgrade()
    }

    pub(super) fn route(&self, lead: &Lead) -> Route {
        self.known().route(self.exposure, lead)
    }

    /// Why this process is not ready, in words for an operator. Of a process that leads, its API
    /// decides.
    pub(super) fn readiness(&self) -> Result<(), String> {
        self.readiness_at(boot_nanos())
    }

    /// As long as this process does not lead.
    pub(super) fn render(&self, form: Exposition) -> Result<String, std::fmt::Error> {
        let polled = self.known().polled;
        let age = polled.map(|at| Duration::from_nanos(boot_nanos().saturating_sub(at)));
        self.metrics.stands(self.readiness().is_ok(), age);
        self.metrics.render_alone(form)
    }

    fn readiness_at(&self, now: u64) -> Result<(), String> {
        let lead = self.lead.borrow().clone();
        let known = self.known();
        if let Some(problem) = known.key_problem.as_ref().or(known.format_problem.as_ref()) {
            return Err(problem.clone());
        }
        let route = known.route(self.exposure, &lead);
        match lead.role {
            Role::Following => {}
            Role::Won => return Err("it has taken the lead over, and loads the state".to_owned()),
            Role::Leading => return Err("it stops".to_owned()),
        }
        if let Some(failure) = &known.poll_failure {
            return Err(format!("it cannot see the leader in the database: {failure}"));
        }
        if known.polled.is_none() {
            return Err("it has not seen the database yet".to_owned());
        }
        if let (Route::Nowhere, Some(leader)) = (&route, &lead.leader) {
            return Err(format!(
                "the leader at {} is {}, and this orchestrator is {}: no connection is passed on; \
                 make listen, auth and insecure equal",
                leader.address,
                words(leader.exposure),
                words(self.exposure)
            ));
        }
        let is_recent =
            |at: u64| Duration::from_nanos(now.saturating_sub(at)) < READY_WITHOUT_LEADER;
        let has_begun = lead.leader.is_none() && is_recent(self.started);
        if has_begun || known.reached.is_some_and(is_recent) {
            return Ok(());
        }
        Err(match &lead.leader {
            Some(leader) if leader.address == known.own_address => format!(
                "the database names {} as the leader, which is this orchestrator's own address; \
                 each orchestrator needs its own `advertise`",
                leader.address
            ),
            Some(leader) => format!(
                "the leader at {} accepts no connection from here; its `advertise` and the network \
                 between the orchestrators must agree",
                leader.address
            ),
            None => "no orchestrator leads".to_owned(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stands for Arc<Standing> {
    fn key_problem(&self, problem: Option<String>) {
        self.known().key_problem = problem;
    }

    fn is_ready(&self) -> bool {
        self.readiness().is_ok()
    }
}

// === impl Known ===

impl Known {
    /// For a process with this exposure.
    fn route(&self, exposure: Exposure, lead: &Lead) -> Route {
        match (lead.role, &lead.leader) {
            (Role::Won | Role::Leading, _) => Route::Here,
            (Role::Following, None) => Route::Wait,
            // Its own former lead, or a mistake in the settings: it must not dial itself.
            (Role::Following, Some(leader)) if leader.address == self.own_address => Route::Wait,
            (Role::Following, Some(leader)) if leader.exposure != exposure => Route::Nowhere,
            (Role::Following, Some(leader)) => Route::To(Arc::clone(leader)),
        }
    }
}

const fn words(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::OpenLoopback => "open to its own machine only",
        Exposure::Insecure => "open to other machines without TLS",
        Exposure::Protected => "protected by TLS",
    }
}

#[cfg(test)]
mod tests;
