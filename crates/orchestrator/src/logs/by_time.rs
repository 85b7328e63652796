//! Merges the output of several executions by the times that their nodes gave it.
//!
//! Clocks of nodes are not corrected, and what one execution printed is never reordered. A piece
//! goes out when every other source has shown what comes next in it, or is over. Sources are read a
//! little ahead, so that they wait for the reader and not for one another.
//!
//! A source that shows nothing would hold up all others. Output that is followed does not wait for
//! it for long: what it prints later comes later. Output of the past leaves it out, and says so; a
//! node that hangs is not asked for the executions of later blocks.
//!
//! A source is polled when it was taken from or has nothing left, not for each line of the others.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use api_types::{NodeId, Timestamp};
use futures_util::stream::{BoxStream, StreamExt};
use tokio::time::Instant;

use super::item::{Event, Item, Label, Piece};

/// Output that is read ahead of each source; a batch of a node may exceed it.
const AHEAD_BYTES: usize = 16 << 10;

/// How long silent sources may hold up a reader of past output, in total.
const SILENCE: Duration = Duration::from_secs(2);

/// The part of it that each block of sources has in any case: a node needs a moment to connect.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// Sources of a node that may hang, as long as it sends something of others.
const MAX_HANGING: u32 = 2;

/// How long a followed source may hold up others, once it has sent something.
const FOLLOWED_SILENCE: Duration = Duration::from_millis(250);

/// The same before its first output: its node connects first, and sends what there is.
const FIRST_SILENCE: Duration = Duration::from_secs(1);

pub(super) struct ByTime {
    slots: Vec<Slot>,
    follow: bool,
    /// What is left of [`SILENCE`].
    patience: Duration,
    /// When the sources were last polled: nothing can arrive while the reader is slow.
    polled_at: Instant,
    /// Nodes of which sources hung, and how many.
    hanging: HashMap<NodeId, u32>,
    /// Nodes that have sent something of this block.
    heard: HashSet<NodeId>,
}

struct Slot {
    label: Label,
    /// Known of past output.
    node: Option<NodeId>,
    events: BoxStream<'static, Event>,
    ready: VecDeque<Ready>,
    bytes: usize,
    /// Of its last piece that went out.
    time: Timestamp,
    /// Since when it has shown nothing.
    silent_since: Instant,
    has_sent: bool,
    /// Whether there is room for more than it had when it was last polled.
    has_room: bool,
    is_over: bool,
}

enum Ready {
    Piece(Piece),
    /// A remark, or the end.
    Other(Event),
}

// === impl ByTime ===

impl ByTime {
    pub(super) fn new(follow: bool) -> Self {
        Self {
            slots: Vec::new(),
            follow,
            patience: SILENCE,
            polled_at: Instant::now(),
            hanging: HashMap::new(),
            heard: HashSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Begins the next block; the sources of the former one are over.
    pub(super) fn begin_block(&mut self) {
        self.heard.clear();
    }

    /// Whether the node hung in an earlier block, so that it is of no use to ask it again.
    pub(super) fn gave_up(&self, node: NodeId) -> bool {
        self.hanging.get(&node).is_some_and(|times| *times >= MAX_HANGING)
    }

    pub(super) fn push(
        &mut self,
        label: Label,
        node: Option<NodeId>,
        events: BoxStream<'static, Event>,
    ) {
        self.slots.push(Slot {
            label,
            node,
            events,
            ready: VecDeque::new(),
            bytes: 0,
            time: Timestamp::ZERO,
            silent_since: Instant::now(),
            has_sent: false,
            has_room: true,
            is_over: false,
        });
    }

    /// The next event, if no source has to be read for it.
    pub(super) fn next_ready(&mut self) -> Option<Event> {
        match self.slots.iter().any(Slot::is_awaited) {
            true => None,
            false => self.earliest(),
        }
    }

    /// The next event; `None` once all sources are over. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.forgive_the_reader();
        loop {
            poll_fn(|context| {
                self.read_ahead(context);
                Poll::Ready(())
            })
            .await;
            self.slots.retain(|slot| !slot.is_over || !slot.ready.is_empty());
            if self.slots.is_empty() {
                return None;
            }
            let (now, patience) = (Instant::now(), self.patience);
            if !self.follow && self.slots.iter().any(|slot| slot.is_hanging(patience)) {
                return self.leave_out(now);
            }
            let awaited = self.slots.iter().filter(|slot| slot.is_awaited());
            let due = awaited.map(|slot| slot.holds_up_until(self.follow, patience)).max();
            match due.filter(|due| *due > now) {
                // Something holds up the rest for a while longer.
                Some(due) if self.has_ready() || !self.follow => self.wait(Some(due)).await,
                _ if self.has_ready() => return self.earliest(),
                _ => self.wait(None).await,
            }
        }
    }

    fn has_ready(&self) -> bool {
        self.slots.iter().any(|slot| !slot.ready.is_empty())
    }

    /// Returns when a source has more to show, or at the moment.
    async fn wait(&mut self, until: Option<Instant>) {
        let changes = poll_fn(|context| match self.read_ahead(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        match until {
            // What arrived by then is found by the next poll.
            Some(until) => drop(tokio::time::timeout_at(until, changes).await),
            None => changes.await,
        }
    }

    /// Takes what has arrived; returns whether that is anything.
    fn read_ahead(&mut self, context: &mut Context<'_>) -> bool {
        self.polled_at = Instant::now();
        let mut has_changed = false;
        for slot in &mut self.slots {
            if !slot.has_room && !slot.is_awaited() {
                continue;
            }
            slot.has_room = false;
            while !slot.is_over && slot.bytes < AHEAD_BYTES {
                let Poll::Ready(event) = slot.events.poll_next_unpin(context) else { break };
                has_changed = true;
                if !slot.has_sent {
                    self.heard.extend(slot.node);
                }
                slot.take(event);
            }
        }
        has_changed
    }

    /// The time in which the reader took nothing is not the sources' fault.
    fn forgive_the_reader(&mut self) {
        let away = self.polled_at.elapsed();
        for slot in &mut self.slots {
            slot.silent_since += away;
        }
    }

    /// What comes next of the source with the earliest head, up to the head of the next one.
    fn earliest(&mut self) -> Option<Event> {
        let heads = self.slots.iter().enumerate();
        let heads = heads.filter_map(|(at, slot)| Some((slot.head()?, at)));
        let (mut earliest, mut next) = (None, None);
        for head in heads {
            match earliest {
                Some(first) if head >= first => next = next.min_some(head),
                first => {
                    next = first.map_or(next, |first| next.min_some(first));
                    earliest = Some(head);
                }
            }
        }
        let (_, at) = earliest?;
        self.slots.get_mut(at)?.until(next.map(|(time, _)| time))
    }

    /// Gives up the sources that hold up the others.
    fn leave_out(&mut self, now: Instant) -> Option<Event> {
        let patience = self.patience;
        let slot = self.slots.iter_mut().find(|slot| slot.is_hanging(patience))?;
        let waited = now.saturating_duration_since(slot.silent_since);
        (slot.is_over, slot.bytes) = (true, 0);
        slot.events = futures_util::stream::empty().boxed();
        let (label, node) = (slot.label, slot.node);
        if let Some(node) = node {
            let times = self.hanging.entry(node).or_default();
            *times += if self.heard.contains(&node) { 1 } else { MAX_HANGING };
        }
        // Others that hang as long cost nothing more.
        if !self.slots.iter().any(|slot| slot.is_hanging(patience)) {
            self.patience = patience.saturating_sub(waited).max(LEAST_PATIENCE);
        }
        Some(left_out(label))
    }
}

/// A remark in the place of the output.
pub(super) fn left_out(label: Label) -> Event {
    let remark = format!(
        "its node sent nothing for {} s: what it has of this output is left out",
        SILENCE.as_secs()
    );
    Event::Item(label, Item::Gap(remark))
}

/// The smaller one of those that are there.
trait MinSome<T> {
    fn min_some(self, other: T) -> Self;
}

impl<T: Ord> MinSome<T> for Option<T> {
    fn min_some(self, other: T) -> Self {
        Some(match self {
            Some(one) => one.min(other),
            None => other,
        })
    }
}

// === impl Slot ===

impl Slot {
    fn take(&mut self, event: Option<Event>) {
        self.has_sent = true;
        self.silent_since = Instant::now();
        match event {
            None => self.is_over = true,
            Some(Event::Item(label, Item::Output(pieces))) => {
                self.label = label;
                self.bytes += pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>();
                self.ready.extend(pieces.into_iter().map(Ready::Piece));
            }
            Some(other) => self.ready.push_back(Ready::Other(other)),
        }
    }

    /// Whether it may still show something earlier than the others.
    fn is_awaited(&self) -> bool {
        self.ready.is_empty() && !self.is_over
    }

    fn is_hanging(&self, patience: Duration) -> bool {
        self.is_awaited() && self.silent_since.elapsed() >= patience
    }

    /// Until when the others wait for it.
    fn holds_up_until(&self, follow: bool, patience: Duration) -> Instant {
        let wait = match (follow, self.has_sent) {
            (true, true) => FOLLOWED_SILENCE,
            (true, false) => FIRST_SILENCE,
            (false, _) => patience,
        };
        self.silent_since + wait
    }

    /// When what comes next in it was printed, but not before what went out.
    fn head(&self) -> Option<Timestamp> {
        match self.ready.front()? {
            Ready::Piece(piece) => Some(piece.time.max(self.time)),
            Ready::Other(_) => Some(self.time),
        }
    }

    /// Its pieces up to a time, or the one thing that comes next.
    fn until(&mut self, limit: Option<Timestamp>) -> Option<Event> {
        self.has_room = true;
        let mut pieces = Vec::new();
        while let Some(Ready::Piece(piece)) = self.ready.front() {
            let time = piece.time.max(self.time);
            if !pieces.is_empty() && limit.is_some_and(|limit| time > limit) {
                break;
            }
            self.time = time;
            self.bytes = self.bytes.saturating_sub(piece.bytes.len());
            if let Some(Ready::Piece(piece)) = self.ready.pop_front() {
                pieces.push(piece);
            }
        }
        if !pieces.is_empty() {
            self.silent_since = Instant::now();
            return Some(Event::Item(self.label, Item::Output(pieces)));
        }
        match self.ready.pop_front()? {
            Ready::Other(event) => {
                self.silent_since = Instant::now();
                Some(event)
            }
            Ready::Piece(_) => None,
        }
    }
}
