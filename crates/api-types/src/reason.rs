//! Why nodes do not take an execution: codes, amounts and sentences; `docs/api.md`, "Reasons".

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::quantity::Bytes;
use crate::word::words;

/// Nodes that a [`ReasonGroup`] names.
pub const NAMED_NODES: usize = 5;

/// Values that a [`ReasonGroup`] lists, of those found and of those wanted.
pub const NAMED_VALUES: usize = 10;

/// Reasons that a title names.
const TITLE_REASONS: usize = 2;

words! {
    /// Why a node does not take an execution now. Later releases may add codes, so that a
    /// [`ReasonGroup`] carries text.
    Reason, "a reason", {
        Constraint = "Constraint",
        Cpu = "CPU",
        Memory = "Memory",
        Disk = "Disk",
        Gpu = "GPU",
        Engine = "Engine",
        Publisher = "Publisher",
        Source = "Source",
        Disconnected = "Disconnected",
        NotApproved = "NotApproved",
        Cordoned = "Cordoned",
        Draining = "Draining",
        /// After failures, or because its agent hangs or is being probed.
        BackingOff = "BackingOff",
        /// It has room, and the job's executions failed on it and avoid it for a while.
        Excluded = "Excluded",
        /// It has room that is kept free for other work.
        Reserved = "Reserved",
        /// It has room, and other jobs come first.
        Ahead = "Ahead",
        NoNode = "NoNode",
    }
}

/// Nodes that do not take an execution now, for one reason.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ReasonGroup {
    /// `Constraint`, `CPU`, `Memory`, `Disk`, `GPU`, `Engine`, `Publisher`, `Source`,
    /// `Disconnected`, `NotApproved`, `Cordoned`, `Draining`, `BackingOff`, `Excluded`, `Reserved`,
    /// `Ahead`, `NoNode`; later releases may add more.
    pub reason: String,
    pub nodes: u64,
    /// The first five of them.
    #[serde(rename = "NodeIDs")]
    pub node_ids: Vec<NodeId>,
    /// The reason as a sentence.
    pub message: String,
    /// What an execution asks for: cores, bytes, or a number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Amount>,
    /// The most that one of these nodes gives to an execution while it is empty. If that is less
    /// than `Asked`, none of them can ever take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Amount>,
    /// The most that is free on one of these nodes now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Amount>,
    /// The label that a constraint tests, or the engine, publisher or source that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The constraint, such as `region in (eu, us)`. Viewers do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// At most ten values that these nodes have for the label of a constraint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
}

/// An amount of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Amount {
    /// Bytes, or a number of GPUs.
    Whole(u64),
    Cores(f64),
}

// === impl Reason ===

impl Reason {
    /// `4 cores`, `16 GB of memory`, `2 GPUs`.
    fn amount(self, amount: Amount) -> String {
        let (number, one) = match amount {
            Amount::Cores(cores) => (decimal(cores), cores == 1.0),
            Amount::Whole(count) => (count.to_string(), count == 1),
        };
        let bytes = match amount {
            Amount::Whole(bytes) => Bytes(bytes).to_string(),
            Amount::Cores(_) => number.clone(),
        };
        match self {
            Self::Cpu if one => "1 core".to_owned(),
            Self::Cpu => format!("{number} cores"),
            Self::Memory => format!("{bytes} of memory"),
            Self::Disk => format!("{bytes} of disk"),
            Self::Gpu if one => "1 GPU".to_owned(),
            Self::Gpu => format!("{number} GPUs"),
            _ => number,
        }
    }

    /// The same without the resource: `4`, `16 GB`.
    fn bare(self, amount: Amount) -> String {
        match (self, amount) {
            (Self::Memory | Self::Disk, Amount::Whole(bytes)) => Bytes(bytes).to_string(),
            (_, Amount::Whole(count)) => count.to_string(),
            (_, Amount::Cores(cores)) => decimal(cores),
        }
    }
}

/// At most three decimals, without trailing zeros.
fn decimal(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

// === impl ReasonGroup ===

impl ReasonGroup {
    pub fn code(&self) -> Option<Reason> {
        self.reason.parse().ok()
    }

    /// Whether the nodes are too small even while they are empty.
    pub fn is_too_small(&self) -> bool {
        match (self.asked, self.largest) {
            (Some(asked), Some(largest)) => asked.exceeds(largest),
            _ => false,
        }
    }

    /// The reason as a sentence, from the other fields; empty for a code of a later release.
    pub fn sentence(&self) -> String {
        let Some(reason) = self.code() else { return String::new() };
        let many = self.nodes != 1;
        let nodes = if many { format!("{} nodes", self.nodes) } else { "1 node".to_owned() };
        let (has, is) = if many { ("have", "are") } else { ("has", "is") };
        let key = self.key.as_deref().unwrap_or_default();
        match reason {
            Reason::Constraint => {
                let does = if many { "do" } else { "does" };
                format!("{nodes} {does} not match {}: {}", self.constraint(), self.found())
            }
            Reason::Cpu | Reason::Memory | Reason::Disk | Reason::Gpu => {
                format!("{nodes} {has} too little: {}", self.shortage(reason))
            }
            Reason::Engine => format!("{nodes} {has} no {key} engine"),
            Reason::Publisher => format!("{nodes} {has} no {key} publisher"),
            Reason::Source => format!("{nodes} {has} no {key} input source"),
            Reason::Disconnected => format!("{nodes} {is} disconnected"),
            Reason::NotApproved => format!("{nodes} {is} not approved"),
            Reason::Cordoned => format!("{nodes} {is} cordoned"),
            Reason::Draining => format!("{nodes} {is} draining"),
            Reason::BackingOff => format!("{nodes} {is} backing off after failures"),
            Reason::Excluded => {
                format!("{nodes} {has} room, but the job's executions failed there and stay away")
            }
            Reason::Reserved => {
                format!("{nodes} {is} reserved for work that has waited for longer")
            }
            Reason::Ahead => format!("{nodes} {has} room, but others come first"),
            Reason::NoNode => "no node has joined".to_owned(),
        }
    }

    fn constraint(&self) -> String {
        let key = self.key.as_deref().unwrap_or_default();
        self.wanted.clone().unwrap_or_else(|| format!("a constraint on the label {key}"))
    }

    /// `no node has the label region`, or what they have instead.
    fn found(&self) -> String {
        let key = self.key.as_deref().unwrap_or_default();
        match (self.found.as_slice(), self.nodes) {
            ([], 1) => format!("it has no label {key}"),
            ([], _) => format!("no node has the label {key}"),
            (values, 1) => format!("its {key} is {}", values.join(", ")),
            (values, _) => format!("their {key} is {}", values.join(", ")),
        }
    }

    /// `64 cores are asked for, the largest has 8`.
    fn shortage(&self, reason: Reason) -> String {
        let none = Amount::Whole(0);
        let asked = self.asked.unwrap_or(none);
        let verb = match asked {
            Amount::Whole(1) => "is",
            Amount::Whole(_) if matches!(reason, Reason::Memory | Reason::Disk) => "is",
            Amount::Cores(1.0) => "is",
            Amount::Whole(_) | Amount::Cores(_) => "are",
        };
        let asked = reason.amount(asked);
        if self.is_too_small() {
            let largest = reason.bare(self.largest.unwrap_or(none));
            let which = if self.nodes == 1 { "it" } else { "the largest" };
            return format!("{asked} {verb} asked for, {which} has {largest}");
        }
        let free = reason.bare(self.free.unwrap_or(none));
        let which = if self.nodes == 1 { "" } else { "at most " };
        format!("{asked} {verb} asked for, {which}{free} {} free", plural(reason, &free))
    }
}

fn plural(reason: Reason, free: &str) -> &'static str {
    match reason {
        Reason::Cpu | Reason::Gpu if free != "1" => "are",
        _ => "is",
    }
}

/// What a waiting job waits for, in one line; `ahead` jobs come first, or more than that.
pub fn title(groups: &[ReasonGroup], ahead: u32, ahead_is_more: bool) -> String {
    let has = |wanted: fn(Reason) -> bool| {
        groups.iter().any(|group| group.code().is_some_and(wanted) && !group.is_too_small())
    };
    let waits_for_room = has(|reason| {
        use Reason::{Ahead, Cpu, Disk, Gpu, Memory, Reserved};
        matches!(reason, Ahead | Cpu | Disk | Gpu | Memory | Reserved)
    });
    if waits_for_room {
        let more = if ahead_is_more { "more than " } else { "" };
        return match ahead {
            0 => "Waits for room: it is the first in its queue".to_owned(),
            1 => "Waits for room: 1 job ahead".to_owned(),
            jobs => format!("Waits for room: {more}{jobs} jobs ahead"),
        };
    }
    match groups {
        [] => String::new(),
        [group] => group.title(),
        groups => {
            let reasons: Vec<_> =
                groups.iter().take(TITLE_REASONS).map(|it| it.sentence()).collect();
            let more = match groups.len() - reasons.len() {
                0 => String::new(),
                1 => "; 1 more reason".to_owned(),
                more => format!("; {more} more reasons"),
            };
            format!("No node takes it: {}{more}", reasons.join("; "))
        }
    }
}

// === impl ReasonGroup: titles ===

impl ReasonGroup {
    /// The title of a job that waits for this reason alone.
    fn title(&self) -> String {
        let none = Amount::Whole(0);
        match self.code() {
            Some(Reason::Constraint) => match &self.wanted {
                Some(wanted) => format!("No node matches: needs {wanted}; {}", self.found()),
                None => format!("No node matches {}", self.constraint()),
            },
            Some(reason @ (Reason::Cpu | Reason::Memory | Reason::Disk | Reason::Gpu)) => {
                let asked = reason.amount(self.asked.unwrap_or(none));
                let largest = reason.bare(self.largest.unwrap_or(none));
                format!("Asks {asked}; the largest node has {largest}")
            }
            Some(Reason::NoNode) => "No node has joined".to_owned(),
            Some(_) | None => format!("No node takes it: {}", self.message),
        }
    }
}

// === impl Amount ===

impl Amount {
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
    pub fn millicores(millis: u64) -> Self {
        Self::Cores(millis as f64 / 1000.0)
    }

    fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one > other,
            (one, other) => one.number() > other.number(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "it is compared with a number of cores")]
    fn number(self) -> f64 {
        match self {
            Self::Whole(count) => count as f64,
            Self::Cores(cores) => cores,
        }
    }
}

#[cfg(test)]
mod tests;
