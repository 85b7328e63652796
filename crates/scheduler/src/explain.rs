//! Explains why a job waits: for each group of nodes, what prevents placement.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::JobId;

use crate::Scheduler;
use crate::demand::{Demand, Want};
use crate::node::{LiveNode, Obstacle};
use crate::plan::Plan;
use crate::pool::ClassId;
use crate::reservation::Waiter;
use crate::text::Text;
use crate::time::Moment;

/// Node checks per refresh, one per class and node; they take well below a millisecond in total.
const CHECKS_PER_REFRESH: usize = 4096;

/// Conditions on labels, and values that they list, that take as long as the rest of a node check.
const CONDITIONS_PER_CHECK: usize = 8;

/// The most groups that one explanation names.
const NAMED_GROUPS: usize = 5;

// === impl Scheduler: explanations ===

impl Scheduler {
    /// Why the job waits. The first job of a class checks every node; later jobs of the class share
    /// its explanation.
    pub(crate) fn explain_job(&mut self, id: JobId) -> Text {
        let Some(job) = self.jobs.get(&id) else { return Text::Constant("") };
        let Some(class_id) = job.class else { return Text::Constant("") };
        let class = self.queue.class(class_id);
        let pinned: Vec<_> = job
            .extras
            .pending
            .iter()
            .filter(|slot| slot.due.is_none())
            .filter_map(|slot| self.nodes.get(&slot.pinned?))
            .collect();
        if !pinned.is_empty() {
            let asked = Asked { demand: &class.demand, plan: Some(&job.plan), now: self.clock };
            return explain(pinned.into_iter(), &asked).into();
        }
        if let Some(text) = &class.explanation {
            return Arc::clone(text).into();
        }
        let text = self.explain_class(class_id);
        if class.waiting.is_empty() {
            return text.into();
        }
        self.queue.explain(class_id, text).into()
    }

    /// Why the first job of the class cannot be placed now, and which node is reserved for it.
    fn explain_class(&self, id: ClassId) -> String {
        let class = self.queue.class(id);
        let first = class.waiting.first().and_then(|rank| self.jobs.get(&rank.job));
        let plan = first.map(|job| &job.plan);
        let asked = Asked { demand: &class.demand, plan, now: self.clock };
        let mut text = explain(self.nodes.values(), &asked);
        if let Some((node, since)) = self.reserved_for(Waiter::Class(id)) {
            let (node, since) = (node.short(), since.rfc3339_seconds());
            text.push_str(&format!(
                "; {node} is reserved for the first in this queue since {since}"
            ));
        }
        text
    }

    /// Explanations that changed since the last call; `None` where no job waits any more.
    ///
    /// Checks every node for each class in which jobs wait, up to [`CHECKS_PER_REFRESH`] in total,
    /// where one with many constraints counts for several; beyond that, successive calls cover the
    /// classes in rotation. The driver calls it at intervals, not for each input.
    pub fn refresh_explanations(&mut self) -> Vec<(Want, Option<Arc<str>>)> {
        let nodes = self.nodes.len().max(1);
        let classes = self.queue.next_waiting_classes(CHECKS_PER_REFRESH, |class| {
            nodes * (1 + class.demand.fit.conditions() / CONDITIONS_PER_CHECK)
        });
        for id in classes {
            let text = self.explain_class(id);
            self.queue.explain(id, text);
        }
        core::mem::take(&mut self.queue.unreported)
    }
}

/// What is to be explained.
struct Asked<'a> {
    demand: &'a Demand,
    plan: Option<&'a Plan>,
    now: Moment,
}

fn explain<'a>(nodes: impl Iterator<Item = &'a LiveNode>, asked: &Asked<'_>) -> String {
    let mut groups: BTreeMap<Obstacle, usize> = BTreeMap::new();
    let mut total = 0;
    let mut open = 0;
    for node in nodes {
        total += 1;
        match node.obstacle(asked.demand, asked.plan, asked.now) {
            Some(obstacle) => *groups.entry(obstacle).or_default() += 1,
            None => open += 1,
        }
    }
    if total == 0 {
        return "no node has joined".to_owned();
    }
    let hopeless = open == 0
        && groups
            .keys()
            .all(|obstacle| matches!(obstacle, Obstacle::Unfit(_) | Obstacle::TooSmall(_)));
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(obstacle, count)| (core::cmp::Reverse(*count), obstacle.clone()));
    let unnamed = groups.len().saturating_sub(NAMED_GROUPS);
    let mut parts: Vec<String> = Vec::new();
    for (at, (obstacle, count)) in groups.iter().take(NAMED_GROUPS).enumerate() {
        let text = obstacle.text();
        parts.push(match at {
            0 => format!("{count} of {total} node{}: {text}", if total == 1 { "" } else { "s" }),
            _ => format!("{count}: {text}"),
        });
    }
    if unnamed > 0 {
        parts.push(format!("{unnamed} more reasons"));
    }
    if open > 0 {
        parts.push(format!("{open}: has room, others come first"));
    }
    let mut text = parts.join("; ");
    if hopeless {
        text.push_str(" (no node that has joined can ever take it)");
    }
    text
}

// === impl Obstacle ===

impl Obstacle {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Away(why) => (*why).to_owned(),
            Self::Unfit(why) => why.clone(),
            Self::TooSmall(what) => format!("not enough {what} (even when empty)"),
            Self::Reserved => "reserved for work that has waited for longer".to_owned(),
            Self::InUse(what) => format!("not enough {what} (in use)"),
        }
    }
}
