//! What leaves a process once it is stored: answers, and lines of streams.

use api_types::protocol::{Assignment, AssignmentLine, HeartbeatAnswer, SessionAnswer};
use control_plane::step::{Delivery, NotCreated, Release, Reply};
use scheduler::change::{AssignmentChange, Effect};
use scheduler::input;

use super::{Process, Surroundings};
use crate::network::{Answer, Caller, Sender, StreamLine};
use crate::orchestrator::disk::Disk;
use crate::orchestrator::outgoing::{Outgoing, Stream};
use crate::orchestrator::requests::assignment;

// === impl Process: releases ===

impl Process {
    fn publish(&mut self, release: &Release<Caller>) {
        for (node, held) in &release.leases {
            match held {
                Some(held) => drop(self.leases.insert(*node, *held)),
                None => drop(self.leases.remove(node)),
            }
        }
    }

    pub(super) fn release(
        &mut self,
        release: Release<Caller>,
        around: &mut Surroundings<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) {
        self.publish(&release);
        let is_leading = around.disk.is_led_by(self.term);
        let disk = &*around.disk;
        for held in release.held {
            if let (Delivery::Effect(effect), Some(digest)) = (&held, &mut *around.digest) {
                digest.add_effect(effect);
            }
            match held {
                Delivery::Reply(_, Reply::Answer(input::Answer::Assignments(_))) if !is_leading => {
                    // What is missing in it stops.
                    panic!("a snapshot leaves a process that has lost the lead")
                }
                Delivery::Reply(_, Reply::Answer(input::Answer::Acknowledged(_)))
                    if !is_leading =>
                {
                    // Its agent does not repeat them.
                    panic!("reports are acknowledged by a process that has lost the lead")
                }
                Delivery::Reply(caller, reply) => self.reply(caller, reply, disk, outgoing),
                Delivery::Effect(Effect::CloseStream { node }) => {
                    let closed = self.streams.remove(&node);
                    outgoing.extend(closed.map(|at| Outgoing::Line(at, StreamLine::Closed)));
                }
                Delivery::Effect(Effect::Assign { node, change }) => {
                    if let Some(stream) = self.streams.get(&node) {
                        let line = line(assignment(disk, change));
                        outgoing.push(Outgoing::Line(*stream, StreamLine::Lines(vec![line])));
                    }
                }
            }
        }
    }

    fn reply(&mut self, caller: Caller, reply: Reply, disk: &Disk, outgoing: &mut Vec<Outgoing>) {
        let answer = match reply {
            Reply::Created(Ok(created)) => Answer::Submitted { job: created.job_id },
            Reply::Created(Err(NotCreated::Refused(why))) => Answer::Refused(why.code()),
            Reply::Created(Err(other)) => panic!("a submission was not possible: {other:?}"),
            Reply::Recorded(stored) => {
                stored.expect("anything may be there before");
                Answer::Done
            }
            Reply::Asked(_) | Reply::Proved => panic!("the simulator never asks"),
            Reply::GraphCreated(_) => panic!("the simulator submits its jobs one by one"),
            Reply::Answer(answer) => match answer {
                input::Answer::Submitted { job, .. } => Answer::Submitted { job },
                input::Answer::Stopped { .. }
                | input::Answer::StoppedJobs(_)
                | input::Answer::Done => Answer::Done,
                input::Answer::Joined { session, membership, lease } => {
                    Answer::Joined(SessionAnswer::granting(session, lease, membership))
                }
                input::Answer::Renewed { lease, probe } => {
                    Answer::Renewed(HeartbeatAnswer { probe, ..HeartbeatAnswer::granting(lease) })
                }
                input::Answer::Acknowledged(known) => Answer::Acknowledged(known),
                input::Answer::Refused(why) => Answer::Refused(why.code()),
                input::Answer::Assignments(snapshot) => {
                    // The lines are the answer.
                    return self.open(caller, snapshot, disk, outgoing);
                }
            },
        };
        outgoing.push(Outgoing::Answer(caller, answer));
    }

    /// Opens a stream. One that was open ends: its agent sees the end of the body.
    fn open(
        &mut self,
        caller: Caller,
        snapshot: Vec<AssignmentChange>,
        disk: &Disk,
        outgoing: &mut Vec<Outgoing>,
    ) {
        let (Sender::Agent { agent, process }, Some((node, connection))) =
            (caller.sender, caller.stream)
        else {
            return;
        };
        let stream = Stream { agent, process, connection };
        let before = self.streams.insert(node, stream);
        outgoing.extend(before.map(|before| Outgoing::Line(before, StreamLine::Closed)));
        let head = AssignmentLine::Snapshot { executions: snapshot.len() as u64 };
        let lines = snapshot.into_iter().map(|change| line(assignment(disk, change)));
        let lines = [head].into_iter().chain(lines).collect();
        outgoing.push(Outgoing::Line(stream, StreamLine::Lines(lines)));
    }
}

fn line(assignment: Assignment) -> AssignmentLine {
    AssignmentLine::Assignment(Box::new(assignment))
}
