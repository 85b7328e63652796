//! Mechanisms that a sabotage takes from an orchestrator.

use std::time::Duration;

use control_plane::clock::Stamp;
use scheduler::Settings;
use scheduler::time::Moment;

use crate::summary::Sabotage;

/// Longer than any run of the simulation.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

pub(super) fn sabotaged_settings(settings: Settings, sabotage: Option<Sabotage>) -> Settings {
    match sabotage {
        Some(Sabotage::NoReservations) => Settings { starvation: None, ..settings },
        Some(Sabotage::NoSilence) => Settings { lease: FOR_EVER, ..settings },
        _ => settings,
    }
}

/// The clock that a service would use if it decided by the wall clock.
pub(super) fn sabotaged(stamp: Stamp, sabotage: Option<Sabotage>) -> Stamp {
    match sabotage {
        Some(Sabotage::TrustWallClock) => {
            Stamp { moment: Moment(stamp.reading.wall.0.cast_unsigned()), ..stamp }
        }
        Some(
            Sabotage::AnswerBeforeCommit
            | Sabotage::ForgetReports
            | Sabotage::ForgetBoot
            | Sabotage::NoFence
            | Sabotage::NoReservations
            | Sabotage::NoSilence
            | Sabotage::ProvideSilently
            | Sabotage::LoadBeforeTerm
            | Sabotage::ForgetLostAfter
            | Sabotage::FillInPatience
            | Sabotage::ForgetAcceptance
            | Sabotage::ForgetLease
            | Sabotage::KeepIdleness
            | Sabotage::BlameTasks
            | Sabotage::BlameImages
            | Sabotage::BlameRoom
            | Sabotage::OverlookDelays
            | Sabotage::HeartbeatsWait
            | Sabotage::OverlookStalls
            | Sabotage::RunUnpublishedAgain
            | Sabotage::BlameNodes
            | Sabotage::TryRefusedAgain
            | Sabotage::ForgetPassedProbes
            | Sabotage::OverlookFailedProbes
            | Sabotage::BelieveOneNamespace
            | Sabotage::ForgetJoining
            | Sabotage::ForgetMaxRunning
            | Sabotage::ForgetHolders
            | Sabotage::KeepUnits
            | Sabotage::KeepQuota
            | Sabotage::KeepQuotaElsewhere
            | Sabotage::ForgetUsage
            | Sabotage::IgnoreShares
            | Sabotage::ForgetOutcomes
            | Sabotage::ForgetEnds
            | Sabotage::ForgetCounterparts
            | Sabotage::StoreDueTimesApart
            | Sabotage::CompleteCancelled
            | Sabotage::LoadSilently
            | Sabotage::BypassGate
            | Sabotage::SkipProofs
            | Sabotage::CompareWallClocks
            | Sabotage::NoJump
            | Sabotage::ResolveByReading,
        )
        | None => stamp,
    }
}
