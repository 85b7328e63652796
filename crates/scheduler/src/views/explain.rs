//! Explains why a job waits: for each group of nodes, what prevents placement.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::{JobId, NodeId, Timestamp};

use crate::demand::{Demand, Resource};
use crate::plan::Plan;
use crate::rank::{ClassId, Waiter};
use crate::state::State;
use crate::state::fit::Obstacle;
use crate::state::node::LiveNode;
use crate::text::Text;
use crate::time::Moment;

/// The most groups that one explanation names.
const NAMED_GROUPS: usize = 5;

// === Explanations ===

/// Why a job waits.
pub(crate) struct Explanation {
    pub(crate) text: Text,
    /// The class that it holds for, if no job of the class knows it yet.
    pub(crate) class: Option<ClassId>,
}

/// Why the job waits. It shares the explanation of its class, unless it waits for certain nodes.
pub(crate) fn explain_job(state: &State, id: JobId) -> Explanation {
    let of_job = |text| Explanation { text, class: None };
    let Some(job) = state.jobs.get(&id) else { return of_job(Text::Constant("")) };
    let Some(class_id) = job.class() else { return of_job(Text::Constant("")) };
    let class = state.queue.class(class_id);
    let pinned: Vec<_> = job
        .extras
        .pending()
        .iter()
        .filter(|slot| slot.due.is_none())
        .filter_map(|slot| state.nodes.get(&slot.pinned?))
        .collect();
    if !pinned.is_empty() {
        let question = Question { demand: &class.demand, plan: Some(&job.plan), now: state.clock };
        return of_job(explain(pinned.into_iter(), &question).into());
    }
    if let Some(text) = &class.explanation {
        return of_job(Arc::clone(text).into());
    }
    let is_shared = !class.waiting.is_empty();
    let text = explain_class(state, class_id).into();
    Explanation { text, class: is_shared.then_some(class_id) }
}

/// Why the first job of the class cannot be placed now, and which node is reserved for it.
pub(crate) fn explain_class(state: &State, id: ClassId) -> String {
    let class = state.queue.class(id);
    let first = class.waiting.first().and_then(|rank| state.jobs.get(&rank.job));
    let plan = first.map(|job| &job.plan);
    let question = Question { demand: &class.demand, plan, now: state.clock };
    let mut text = explain(state.nodes.values(), &question);
    if let Some((node, since)) = reserved_for(state, Waiter::Class(id)) {
        let (node, since) = (state.called(node), since.rfc3339_seconds());
        text.push_str(&format!("; {node} is reserved for the first in this queue since {since}"));
    }
    text
}

/// What is to be explained.
pub(crate) struct Question<'a> {
    demand: &'a Demand,
    plan: Option<&'a Plan>,
    now: Moment,
}

fn explain<'a>(nodes: impl Iterator<Item = &'a LiveNode>, question: &Question<'_>) -> String {
    let mut groups: BTreeMap<Obstacle<'_>, usize> = BTreeMap::new();
    let mut total = 0;
    let mut open = 0;
    let mut is_possible = false;
    for node in nodes {
        total += 1;
        match node.obstacle(question.demand, question.plan, question.now) {
            Some(obstacle) => {
                is_possible = is_possible || node.could_ever_take(question.demand, &obstacle);
                *groups.entry(obstacle).or_default() += 1;
            }
            None => (open, is_possible) = (open + 1, true),
        }
    }
    if total == 0 {
        return "no node has joined".to_owned();
    }
    // Several requirements of one label have one text.
    let mut texts: BTreeMap<(u8, Option<Resource>, String), usize> = BTreeMap::new();
    for (obstacle, count) in groups {
        let (kind, resource) = obstacle.order();
        *texts.entry((kind, resource, obstacle.text())).or_default() += count;
    }
    let mut groups: Vec<_> = texts.into_iter().collect();
    groups.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    let unnamed = groups.len().saturating_sub(NAMED_GROUPS);
    let mut parts: Vec<String> = Vec::new();
    for (at, ((.., text), count)) in groups.iter().take(NAMED_GROUPS).enumerate() {
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
    if !is_possible {
        text.push_str(" (no node that has joined can ever take it)");
    }
    text
}

// === impl Obstacle ===

impl Obstacle<'_> {
    /// Which of equally frequent ones is named first.
    const fn order(&self) -> (u8, Option<Resource>) {
        match self {
            Self::Away(_) => (0, None),
            Self::Unfit(_) => (1, None),
            Self::TooSmall(what) => (2, Some(*what)),
            Self::InUse(what) => (3, Some(*what)),
            Self::Reserved => (4, None),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Away(why) => (*why).to_owned(),
            Self::Unfit(unmet) => unmet.to_string(),
            Self::TooSmall(what) => format!("not enough {} (even when empty)", what.word()),
            Self::Reserved => "reserved for work that has waited for longer".to_owned(),
            Self::InUse(what) => format!("not enough {} (in use)", what.word()),
        }
    }
}

/// The node that is reserved for the head of a queue, and since when.
pub(crate) fn reserved_for(state: &State, waiter: Waiter) -> Option<(NodeId, Timestamp)> {
    let node = state.reservations.node_of(waiter)?;
    let reservation = state.nodes.get(&node)?.reservation()?;
    Some((node, reservation.since))
}

#[cfg(test)]
mod tests {
    use api_types::engine::{EngineType, PublisherType};
    use api_types::rows;
    use api_types::selector::{Requirement, Test};
    use api_types::source::SourceType;
    use api_types::testing::flaw;

    use super::*;
    use crate::demand::{Resource, Unmet};

    /// Together with the words of a node that is away, this is what follows `3 of 5 nodes:`.
    #[test]
    fn every_obstacle_has_words_for_its_user() {
        let requirement = Requirement { key: "region".to_owned(), test: Test::Exists };
        let unmet = rows!(Unmet<'_> {
            Unmet::Engine(_) => [Unmet::Engine(EngineType::Wasm)],
            Unmet::Publisher(_) => [Unmet::Publisher(PublisherType::S3)],
            Unmet::Source(_) => [Unmet::Source(SourceType::Ipfs)],
            Unmet::Label(_) => [Unmet::Label(&requirement)],
        });
        let unfit = unmet.into_iter().map(|(_, unmet)| Obstacle::Unfit(unmet));
        let small = rows!(Resource {
            Resource::Cpu => [Resource::Cpu],
            Resource::Memory => [Resource::Memory],
            Resource::Disk => [Resource::Disk],
            Resource::Gpu => [Resource::Gpu],
        });
        let small = small.into_iter().map(|(_, resource)| Obstacle::TooSmall(resource));
        let rows = rows!(Obstacle<'_> {
            Obstacle::Unfit(_) => [Obstacle::Unfit(Unmet::Engine(EngineType::Wasm))],
            Obstacle::TooSmall(_) => [Obstacle::TooSmall(Resource::Cpu)],
            Obstacle::Away(_) => [Obstacle::Away("cordoned")],
            Obstacle::InUse(_) => [Obstacle::InUse(Resource::Memory)],
            Obstacle::Reserved => [Obstacle::Reserved],
        });
        let rest = rows.into_iter().skip(2).map(|(_, obstacle)| obstacle);
        let said: Vec<_> = unfit.chain(small).chain(rest).map(|it| it.text()).collect();
        assert!(said.iter().all(|text| flaw(text).is_none()), "{said:?}");
        let expected = [
            "no wasm engine",
            "no s3 publisher",
            "no ipfs input source",
            "label region",
            "not enough CPU (even when empty)",
            "not enough memory (even when empty)",
            "not enough disk (even when empty)",
            "not enough GPU (even when empty)",
            "cordoned",
            "not enough memory (in use)",
            "reserved for work that has waited for longer",
        ];
        assert_eq!(said, expected);
    }
}
